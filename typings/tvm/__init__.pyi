# Types of the TVM classes that write TIR. TVM's own sources do not declare arithmetic on expressions, nor most
# attributes: TVM adds them as it runs. Modules that are missing here are `Any`.

from typing import Any

def __getattr__(name: str) -> Any: ...
