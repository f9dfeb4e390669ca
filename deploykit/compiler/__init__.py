"""The compiler: turns an `ImportedModel` into a `Program`, then into sources and objects; `pipeline` has the stages."""
