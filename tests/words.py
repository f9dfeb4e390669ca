# ruff: noqa: E501, RUF001
"""Names of a model that mean something where artifacts are written, compiled or used.

These are keywords, macros, types and functions of C and C++, of common headers and of the core; keywords of JavaScript and
members of all its objects; keywords of Python; reserved file names; and texts that are not words.
"""

C = """auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Alignas _Alignof
_Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local alignas alignof bool constexpr false
nullptr static_assert thread_local true typeof typeof_unqual _BitInt _Decimal32"""
CPP = """and and_eq asm bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl concept
const_cast consteval constinit decltype delete dynamic_cast explicit export final friend import module mutable namespace
new noexcept not not_eq operator or or_eq override private protected public reinterpret_cast requires static_cast
template this throw try typeid typename using virtual wchar_t xor xor_eq"""
MACROS = """NULL EOF INT8_MAX INT16_MIN INT32_MAX INT64_MAX INT64_MIN UINT8_MAX UINT32_MAX UINT64_MAX INTPTR_MAX INTMAX_MAX
SIZE_MAX PTRDIFF_MAX INT64_C UINT64_C CHAR_BIT INT_MAX LONG_MAX LLONG_MIN FLT_MAX DBL_EPSILON NAN INFINITY HUGE_VAL M_PI I
complex errno assert stdin stdout stderr offsetof size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint32_t
uint64_t intptr_t uintptr_t intmax_t max_align_t ssize_t time_t linux unix i386 near far min max isnan isinf isfinite
signbit FP_NAN EDOM ERANGE SIGINT __FILE__ __LINE__ __func__ __cplusplus va_list setjmp jmp_buf NDEBUG BUFSIZ
RAND_MAX EXIT_SUCCESS IN OUT ERROR BOOL TRUE FALSE DELETE interface small hyper CONST VOID major minor"""
FUNCTIONS = """main printf puts malloc free memcpy memmove memset memcmp strlen strcmp exit abort abs labs div rand sin cos tan
exp exp2 expf log logf log2 pow powf sqrt sqrtf floor ceil round trunc fabs fabsf fmin fmax fminf fmaxf fmod fma erf tanh
gamma lgamma j0 j1 y0 y1 yn index rindex read write open close signal time clock select link pipe environ"""
OWN = """dk DK_OK DK_ERROR_DATA DK_MAX_RANK DK_SIZE DK_STEP DK_ALIGNED DK_FLOAT32 DK_AXIS_DATA dk_model dk_tensor dk_status dk_init
dk_min dk_max dk_div dk_copy dk_parallel_for dk_check_data dk_port model base inputs outputs arena weights dims status call
context begin end needed available values output tensor bounds what place slices scalars from to driver resume prepare
steps levels range none error need level kernels x x_bytes x_2 INPUTS OUTPUTS s S input_0 output_0 names"""
JS = """abstract arguments await boolean byte debugger eval finally function implements in instanceof let native null package
super synchronized throws transient undefined var with yield NaN Infinity Object Array Symbol Promise window document self
globalThis process require exports
constructor __proto__ __defineGetter__ __defineSetter__ __lookupGetter__ prototype hasOwnProperty isPrototypeOf
propertyIsEnumerable toString toLocaleString valueOf then data shape dtype run load dispose get set async of type any"""
PYTHON = """False None True as assert async def del elif except from global import is lambda nonlocal pass raise yield
__init__ __class__ __dict__ file allow_pickle args kwds feeds cls print len list dict str numpy random"""
SYSTEM = "con prn aux nul com1 lpt1 CON NUL example test all clean install help ALL m c pthread rt dl stdc++"
ODD = (
    "x.1",
    "x-1",
    "x 1",
    "X",
    "x/1",
    "x:0",
    "x\\1",
    'x"1',
    "x'1",
    "x*/1",
    "/*x",
    "x\n1",
    "x\t1",
    "x??/",
    "??=x",
    "x%s1",
    "%d",
    "{}",
    "{x}",
    "{{ x }}",
    "${x}",
    "`x`",
    "</script>",
    "<b>x</b>",
    "&amp;",
    "1",
    "007",
    "9lives",
    "1e5",
    "_",
    "__",
    "___x",
    "x_",
    "_x",
    ".",
    "..",
    "...",
    "-",
    "--help",
    "-x",
    "=",
    "a=b",
    "=1",
    ",",
    "a,b",
    ";",
    "#",
    "@",
    "!",
    "?",
    "(x)",
    "[0]",
    "é",
    "É",
    "名前",
    "имя",
    "😀",
    "a\u0301",
    "á",
    "\u2028",
    "\u200b",
    "\ufeffx",
    "ｘ",
    "ﬁ",
    "x" * 300,
    "x" * 299 + "y",
    "a b  c",
    " ",
    " lead",
    "trail ",
    "random",
    "random:0",
    "batch",
    "Batch",
    "BATCH",
    "bAtch",
    "seq len",
    "seq_len",
    "seq__len",
    "floor",
    "ceil(x)",
    "a//b",
    "a*b+c",
    "x_bytes_bytes",
    "X_BYTES",
)


def words() -> list[str]:
    """All words, without repetition."""
    found = dict.fromkeys(f"{C} {CPP} {MACROS} {FUNCTIONS} {OWN} {JS} {PYTHON} {SYSTEM}".split())
    return list(dict.fromkeys((*found, *ODD)))
