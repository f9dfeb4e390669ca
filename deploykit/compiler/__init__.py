"""The compiler: `ImportedModel` -> `Program` -> sources and objects; `pipeline` names the stages."""
