"""Reading stored numbers: against values of torch 2.13 and compressed-tensors 0.19, run once by hand."""

from __future__ import annotations

import numpy as np
import pytest
from checkpoints import AWQ_SLOTS, E4M3, from_bf16, pack, to_bf16, to_e4m3

from pipeline.inspection.configs import end_ids, rope
from pipeline.inspection.decode import AWQ_ORDER, float8, floats, unpack


def test_e4m3_is_torchs() -> None:
    values = float8("F8_E4M3")
    codes = [0, 1, 7, 8, 9, 0x38, 0x3F, 0x7E, 0x81, 0xB8, 0xFE]
    torchs = [0.0, 0.001953125, 0.013671875, 0.015625, 0.017578125, 1.0, 1.875, 448.0, -0.001953125, -1.0, -448.0]
    assert values[codes].tolist() == torchs
    assert np.isnan(values).nonzero()[0].tolist() == [0x7F, 0xFF]
    positive = values[:127].astype(np.float64)
    assert (positive.sum(), (positive**2).sum()) == pytest.approx((5407.875, 1271466.665802002), rel=1e-12)


def test_e5m2_is_torchs() -> None:
    values = float8("F8_E5M2")
    codes = [0, 1, 4, 0x3C, 0x3F, 0x7B, 0x84, 0xBC]
    torchs = [0.0, 1.52587890625e-05, 6.103515625e-05, 1.0, 1.75, 57344.0, -6.103515625e-05, -1.0]
    assert values[codes].tolist() == torchs
    assert np.isinf(values[0x7C]) and np.isnan(values[0x7D:0x80]).all()
    assert values[:124].astype(np.float64).sum() == pytest.approx(360447.9997558594, rel=1e-12)


def test_four_bits_are_unpacked_as_compressed_tensors_packs_them() -> None:
    packed = np.array([[-22444784, 125], [-1815605397, 162]], np.int32)  # pack_to_int32(values, 4)
    values = [[-8, -7, -3, 0, 1, 2, 6, 7, 5, -1], [3, -2, 7, -8, 0, 4, -5, 1, -6, 2]]
    assert unpack(packed, 4, 10, zero=8).tolist() == values


def test_eight_bits_are_unpacked_as_compressed_tensors_packs_them() -> None:
    packed = np.array([[-8356096, 13189]], np.int32)  # pack_to_int32(values, 8)
    assert unpack(packed, 8, 6, zero=128).tolist() == [[-128, -1, 0, 127, 5, -77]]


def test_zero_points_are_packed_along_the_rows() -> None:
    packed = np.array([[-564614672, 516138891], [6, 9]], np.int32)  # pack_to_int32(zero_points, 4, packed_dim=0)
    zeros = [[-8, 3], [7, 0], [1, -1], [2, 2], [0, -5], [-3, 4], [6, 6], [5, -7], [-2, 1]]
    assert (unpack(packed.T, 4, 9, zero=8).T).tolist() == zeros


def test_autoawq_order_undoes_the_one_it_packs_in() -> None:
    # AutoAWQ packs columns [0, 2, 4, 6, 1, 3, 5, 7] (awq/modules/linear/gemm.py, order_map);
    # vLLM undoes it with [0, 4, 1, 5, 2, 6, 3, 7] (auto_awq.py, _REVERSE_AWQ_PACK_ORDER).
    assert AWQ_ORDER == (0, 4, 1, 5, 2, 6, 3, 7)
    columns = np.arange(16)[None, :]
    assert unpack(pack(columns, 4, AWQ_SLOTS), 4, 16, order=AWQ_ORDER).tolist() == columns.tolist()


def test_bf16_is_the_upper_half_of_a_float32() -> None:
    bits = np.array([[0x3F80, 0xC000, 0x7F80, 0x0001, 0x4049]], np.uint16)
    assert floats(bits, "BF16").tolist() == [[1.0, -2.0, np.inf, 9.183549615799121e-41, 3.140625]]


def test_every_decoder_agrees_with_the_encoders_of_the_tests() -> None:
    values = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    assert np.abs(from_bf16(to_bf16(values)) - values).max() <= 2.0**-8 * np.abs(values).max()
    assert np.array_equal(floats(to_bf16(values), "BF16"), from_bf16(to_bf16(values)))
    codes = to_e4m3(values)
    assert np.array_equal(np.abs(floats(codes, "F8_E4M3")), E4M3[codes & 127].astype(np.float32))


def test_rope_of_both_generations_of_configs_is_the_same() -> None:
    old = {"rope_theta": 5e5, "rope_scaling": {"type": "su", "factor": 4.0, "short_factor": None}}
    new = {"rope_parameters": {"rope_theta": 5e5, "rope_type": "longrope", "factor": 4.0}}
    assert rope(old) == rope(new) == {"rope_theta": 5e5, "rope_type": "longrope", "factor": 4.0}
    assert rope({"rope_theta": 1e4, "rope_scaling": None}) == rope({"rope_theta": 1e4})
    assert rope({"rope_theta": 1e4}) != rope({})


def test_end_ids_come_from_the_generation_config_first() -> None:
    assert end_ids({"eos_token_id": [1, 2]}, {"eos_token_id": 3}) == {1, 2}
    assert end_ids({}, {"eos_token_id": 3}) == {3}
    assert end_ids({}, {"text_config": {"eos_token_id": [4]}}) == {4}
    assert end_ids({}, {}) is None
