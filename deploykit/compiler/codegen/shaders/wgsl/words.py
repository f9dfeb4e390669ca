"""Words that a shader cannot use as names: W3C, "WGSL", sections 3.7 and 16.1, and the names of built-ins."""

from __future__ import annotations

_KEYWORDS = (
    "alias break case const const_assert continue continuing default diagnostic discard else enable false fn "
    "for if let loop override requires return struct switch true var while"
)
"""Section 16.1.1."""

_RESERVED = (
    "NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become "
    "binding_array cast catch class co_await co_return co_yield coherent column_major common compile "
    "compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype delete demote "
    "demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough filter final "
    "finally friend from fxgroup get goto groupshared highp impl implements import inline instanceof "
    "interface layout lowp macro macro_rules match mediump meta mod module move mut mutable namespace new nil "
    "noexcept noinline nointerpolation non_coherent noncoherent noperspective null nullptr of operator "
    "package packoffset partition pass patch pixelfragment precise precision premerge priv protected pub "
    "public readonly ref regardless register reinterpret_cast require resource restrict self set shared "
    "sizeof smooth snorm static static_assert static_cast std subroutine super target template this "
    "thread_local throw trait try type typedef typeid typename typeof union unless unorm unsafe unsized use "
    "using varying virtual volatile wgsl where with writeonly yield"
)
"""Section 16.1.2."""

_TYPES = (
    "array atomic bool f16 f32 i32 mat2x2 mat3x3 mat4x4 ptr sampler texture_2d u32 vec2 vec3 vec4 vec2f vec3f "
    "vec4f vec2i vec3i vec4i vec2u vec3u vec4u vec2h vec3h vec4h function private storage uniform workgroup "
    "read write read_write"
)
"""Types, address spaces and access modes."""

_FUNCTIONS = (
    "all any select arrayLength bitcast abs acos acosh asin asinh atan atanh atan2 ceil clamp cos cosh "
    "countLeadingZeros countOneBits countTrailingZeros cross degrees determinant distance dot dot4I8Packed "
    "dot4U8Packed exp exp2 extractBits faceForward firstLeadingBit firstTrailingBit floor fma fract frexp "
    "insertBits inverseSqrt ldexp length log log2 max min mix modf normalize pow quantizeToF16 radians "
    "reflect refract reverseBits round saturate sign sin sinh smoothstep sqrt step tan tanh transpose trunc "
    "atomicLoad atomicStore atomicAdd atomicSub atomicMax atomicMin atomicAnd atomicOr atomicXor "
    "atomicExchange atomicCompareExchangeWeak pack2x16float unpack2x16float pack4x8unorm unpack4x8unorm "
    "storageBarrier workgroupBarrier workgroupUniformLoad subgroupAdd subgroupMax subgroupMin "
    "subgroupBroadcast subgroupShuffle"
)
"""Functions that shaders call."""

_OWN = "main group number thread task work team_lane team_size scalars threads Scalars"
"""Names that every shader declares."""

WORDS = frozenset(f"{_KEYWORDS} {_RESERVED} {_TYPES} {_FUNCTIONS} {_OWN}".split())
