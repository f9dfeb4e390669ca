"""Models of time series, of states, and of other numeric data."""

from __future__ import annotations

from tests.zoo.architectures.text import TINY
from tests.zoo.case import Case, Input

PROBABILISTIC = {
    "prediction_length": 4,
    "context_length": 8,
    "lags_sequence": [1, 2],
    "num_time_features": 1,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "input_size": 1,
}
PAST = (
    Input("past_values", ("batch", 10)),
    Input("past_time_features", ("batch", 10, 1)),
    Input("past_observed_mask", ("batch", 10), "mask"),
    Input("future_values", ("batch", 4)),
    Input("future_time_features", ("batch", 4, 1)),
)
PATCHES = {
    "num_input_channels": 3,
    "context_length": 32,
    "patch_length": 8,
    "patch_stride": 8,
    "d_model": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "ffn_dim": 16,
    "num_layers": 1,
    "prediction_length": 4,
    "expansion_factor": 2,
}

CASES = (
    Case(
        "autoformer", "time series", "AutoformerModel", {**PROBABILISTIC, "label_length": 4, "moving_average": 3}, PAST
    ),
    Case(
        "decision-transformer",
        "time series",
        "DecisionTransformerModel",
        {
            "state_dim": 5,
            "act_dim": 3,
            "hidden_size": 32,
            "max_ep_len": 64,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 128,
        },
        (
            Input("states", ("batch", "seq", 5)),
            Input("actions", ("batch", "seq", 3)),
            Input("rewards", ("batch", "seq", 1)),
            Input("returns_to_go", ("batch", "seq", 1)),
            Input("timesteps", ("batch", "seq"), "ids", 0, 60),
            Input("attention_mask", ("batch", "seq"), "mask"),
        ),
    ),
    Case("informer", "time series", "InformerModel", {**PROBABILISTIC, "sampling_factor": 2, "distil": False}, PAST),
    Case(
        "patchtsmixer", "time series", "PatchTSMixerForPrediction", PATCHES, (Input("past_values", ("batch", 32, 3)),)
    ),
    Case(
        "patchtst",
        "time series",
        "PatchTSTForPrediction",
        {**PATCHES, "use_cls_token": False},
        (Input("past_values", ("batch", 32, 3)),),
    ),
    Case("time-series-transformer", "time series", "TimeSeriesTransformerModel", PROBABILISTIC, PAST),
    Case(
        "imagegpt",
        "vision",
        "ImageGPTModel",
        {**TINY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
        (Input("input_ids", ("batch", "seq"), "ids"),),
    ),
)
