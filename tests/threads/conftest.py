from tests.dynamic.conftest import built

__all__ = ["built"]
