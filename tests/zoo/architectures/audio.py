"""Models of audio: waveforms and spectrograms."""

from __future__ import annotations

from typing import Any

from tests.zoo.architectures.pairs import BART, TARGET
from tests.zoo.architectures.text import TINY
from tests.zoo.case import Case, Input

WAVE = Input("input_values", ("batch", "samples"))
SPECTROGRAM = Input("spectrogram", ("batch", "frames", 16))
HIFIGAN = {
    "model_in_dim": 16,
    "upsample_initial_channel": 16,
    "upsample_rates": [2, 2],
    "upsample_kernel_sizes": [4, 4],
}
CONV = {
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 3],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
    "apply_spec_augment": False,
}


def wave(name: str, model: str, **config: Any) -> Case:
    return Case(name, "audio", model, {**TINY, **CONV, **config}, (WAVE,))


CASES = (
    Case(
        "audio-spectrogram-transformer",
        "audio",
        "ASTModel",
        {**TINY, "num_mel_bins": 16, "max_length": 32, "patch_size": 8, "frequency_stride": 8, "time_stride": 8},
        (Input("input_values", ("batch", 32, 16)),),
    ),
    Case(
        "clap-audio",
        "audio",
        "ClapAudioModel",
        {
            "spec_size": 64,
            "num_mel_bins": 16,
            "window_size": 4,
            "patch_embeds_hidden_size": 16,
            "depths": [1, 1],
            "num_attention_heads": [2, 2],
            "hidden_size": 32,
            "enable_fusion": False,
            "patch_size": 4,
            "patch_stride": [4, 4],
            "num_hidden_layers": 2,
        },
        (Input("input_features", ("batch", 1, 256, 16)),),
    ),
    wave("data2vec-audio", "Data2VecAudioModel", conv_pos_kernel_size=3, num_conv_pos_embeddings=2),
    Case(
        "encodec",
        "audio",
        "EncodecModel",
        {
            "num_filters": 4,
            "upsampling_ratios": [4, 2],
            "hidden_size": 16,
            "codebook_size": 16,
            "codebook_dim": 16,
            "num_lstm_layers": 1,
            "normalize": False,
            "target_bandwidths": [6.0],
            "sampling_rate": 8000,
            "chunk_length_s": None,
        },
        (Input("input_values", ("batch", 1, "samples")),),
    ),
    Case(
        "dac",
        "audio",
        "DacModel",
        {
            "encoder_hidden_size": 8,
            "downsampling_ratios": [4, 2],
            "decoder_hidden_size": 16,
            "n_codebooks": 2,
            "codebook_size": 16,
            "codebook_dim": 4,
            "upsampling_ratios": [2, 4],
            "hidden_size": 32,
        },
        (Input("input_values", ("batch", 1, "samples")),),
    ),
    Case(
        "fastspeech2-conformer-hifigan",
        "audio",
        "FastSpeech2ConformerHifiGan",
        HIFIGAN,
        (SPECTROGRAM,),
    ),
    wave("hubert", "HubertModel"),
    Case(
        "moonshine",
        "audio",
        "MoonshineForConditionalGeneration",
        {
            **TINY,
            "encoder_num_hidden_layers": 1,
            "decoder_num_hidden_layers": 1,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
            "decoder_start_token_id": 1,
        },
        (WAVE, TARGET),
        call={"use_cache": False},
        sizes={"samples": (1600, 2000, 3203, 4000, 2400)},
    ),
    wave("sew", "SEWModel", squeeze_factor=2),
    wave(
        "sew-d",
        "SEWDModel",
        squeeze_factor=2,
        position_buckets=8,
        share_att_key=True,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        norm_rel_ebd="layer_norm",
    ),
    Case(
        "speech-to-text",
        "audio",
        "Speech2TextForConditionalGeneration",
        {
            **TINY,
            **BART,
            "input_feat_per_channel": 16,
            "input_channels": 1,
            "conv_channels": 16,
            "num_conv_layers": 2,
            "max_source_positions": 64,
            "max_target_positions": 64,
        },
        (Input("input_features", ("batch", "frames", 16)), TARGET),
        call={"use_cache": False},
    ),
    Case(
        "speecht5-hifigan",
        "audio",
        "SpeechT5HifiGan",
        HIFIGAN,
        (SPECTROGRAM,),
    ),
    wave("unispeech", "UniSpeechModel"),
    wave("unispeech-sat", "UniSpeechSatModel"),
    Case(
        "univnet",
        "audio",
        "UnivNetModel",
        {
            "model_in_channels": 8,
            "model_hidden_channels": 8,
            "num_mel_bins": 16,
            "resblock_kernel_sizes": [3, 3],
            "resblock_stride_sizes": [2, 2],
            "resblock_dilation_sizes": [[1, 3], [1, 3]],
            "kernel_predictor_num_blocks": 1,
            "kernel_predictor_hidden_channels": 8,
        },
        (Input("input_features", ("batch", "frames", 16)), Input("noise_sequence", ("batch", "frames", 8))),
    ),
    wave("wav2vec2", "Wav2Vec2Model"),
    wave("wav2vec2-ctc", "Wav2Vec2ForCTC", feat_extract_norm="layer", do_stable_layer_norm=True),
    Case(
        "wav2vec2-bert",
        "audio",
        "Wav2Vec2BertModel",
        {
            **TINY,
            "feature_projection_input_dim": 16,
            "conv_depthwise_kernel_size": 3,
            "left_max_position_embeddings": 8,
            "right_max_position_embeddings": 4,
            "apply_spec_augment": False,
            "mask_time_prob": 0.0,
        },
        (Input("input_features", ("batch", "frames", 16)),),
    ),
    wave("wav2vec2-conformer", "Wav2Vec2ConformerModel", conv_depthwise_kernel_size=3),
    wave("wavlm", "WavLMModel", num_buckets=16, max_bucket_distance=32),
    Case(
        "whisper",
        "audio",
        "WhisperForConditionalGeneration",
        {
            **TINY,
            **BART,
            "num_mel_bins": 16,
            "max_source_positions": 30,
            "max_target_positions": 40,
            "decoder_start_token_id": 1,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        (Input("input_features", ("batch", 16, 60)), TARGET),
        call={"use_cache": False},
    ),
)
