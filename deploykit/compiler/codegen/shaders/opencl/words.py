"""Words that a name of a shader must not be in OpenCL C: those of C99 and of the OpenCL C specification, version 1.2,
sections 6.1, 6.10 and 6.12, and macros that compilers define."""

from __future__ import annotations

_C = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof "
    "_Bool _Complex _Imaginary NULL linux unix i386 arm bool true false half quad complex imaginary event_t sampler_t "
    "size_t ptrdiff_t intptr_t uintptr_t uchar ushort uint ulong image1d_t image1d_array_t image1d_buffer_t image2d_t "
    "image2d_array_t image3d_t pipe __kernel kernel __global global __local local __constant constant __private "
    "private __generic generic __read_only read_only __write_only write_only __read_write read_write __attribute__ "
    "attribute uniform vec_step this class namespace template new delete operator public protected main"
)

_ELEMENTS = "char uchar short ushort int uint long ulong float double half bool quad"
_VECTORS = " ".join(f"{name}{size}" for name in _ELEMENTS.split() for size in (2, 3, 4, 8, 16))

_MACROS = (
    "INFINITY NAN MAXFLOAT HUGE_VAL HUGE_VALF CHAR_BIT CHAR_MAX CHAR_MIN INT_MAX INT_MIN LONG_MAX LONG_MIN SCHAR_MAX "
    "SCHAR_MIN SHRT_MAX SHRT_MIN UCHAR_MAX USHRT_MAX UINT_MAX ULONG_MAX FLT_DIG FLT_MANT_DIG FLT_MAX_10_EXP "
    "FLT_MAX_EXP FLT_MIN_10_EXP FLT_MIN_EXP FLT_RADIX FLT_MAX FLT_MIN FLT_EPSILON HALF_MAX HALF_MIN HALF_EPSILON "
    "FP_CONTRACT FP_FAST_FMA FP_FAST_FMAF FP_ILOGB0 FP_ILOGBNAN M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 "
    "M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 M_SQRT1_2 M_E_F M_LOG2E_F M_LOG10E_F M_LN2_F M_LN10_F M_PI_F M_PI_2_F M_PI_4_F "
    "M_1_PI_F M_2_PI_F M_2_SQRTPI_F M_SQRT2_F M_SQRT1_2_F CLK_LOCAL_MEM_FENCE CLK_GLOBAL_MEM_FENCE"
)

_FUNCTIONS = (
    "get_group_id get_local_id get_global_id barrier mem_fence any all abs min max clamp rint rsqrt sqrt fabs floor "
    "ceil trunc round fma fmod fmin fmax exp exp2 exp10 log log2 log10 pow sin cos tan asin acos atan atan2 sinh cosh "
    "tanh asinh acosh atanh sign step mix smoothstep dot length cross normalize distance select clz popcount hypot "
    "isnan isinf isfinite signbit mul_hi mul24 mad mad24 mad_hi rotate upsample shuffle shuffle2 printf prefetch "
    "vload_half vload_half2 vstore_half vstore_half2 vstore_half2_rte degrees radians remainder remquo erf erfc cbrt "
    "nan nextafter modf frexp ldexp logb ilogb fract fdim expm1 log1p copysign maxmag minmag tgamma lgamma rootn powr "
    "pown native_exp native_log half_exp half_log as_int as_uint as_float"
)

_OWN = "quotient_int quotient_uint rest_int rest_uint same_in_group_int floats_of_word word_of_floats"
"""The functions that this printer adds; `builtins`."""

WORDS = frozenset(f"{_C} {_VECTORS} {_MACROS} {_FUNCTIONS} {_OWN}".split())


class Names:
    """Names for OpenCL C, one for each name of a shader, and others that are free."""

    def __init__(self, taken: frozenset[str]) -> None:
        """`taken` are the names of the shader."""
        self._taken = set(taken)
        self._found: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The name for a name of the shader: the same, unless it means something else."""
        if name not in self._found:
            unusable = name in WORDS or name.startswith(("__", "as_", "convert_", "DK_"))
            self._found[name] = self.free(f"{name}_") if unusable else name
        return self._found[name]

    def free(self, wanted: str) -> str:
        """A name that nothing else has."""
        while wanted in self._taken or wanted in WORDS:
            wanted += "_"
        self._taken.add(wanted)
        return wanted
