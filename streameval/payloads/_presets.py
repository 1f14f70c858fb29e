"""Mappings of known senders; a stream's own mapping can override each key.

Sources, read in 2026: KServe ``pkg/logger``, the Open Inference Protocol, Seldon Core 1
``executor/logger`` and its prediction API, BentoML ``monitoring`` (lines and OTLP), Amazon
SageMaker's ground truth lines, Databricks inference tables, the semantic conventions of
OpenTelemetry for generative AI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_KSERVE_RESPONSE = "org.kubeflow.serving.inference.response"

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "kserve-v1": {
        "types": [_KSERVE_RESPONSE],
        "score": "body.predictions",
        "id": "headers.id",
        "time": "headers.time",
    },
    "kserve-v2": {
        "types": [_KSERVE_RESPONSE],
        "score": "body.outputs[0].data",
        # The protocol echoes the caller's id, which also the sender of the labels knows.
        "id": "body.id || headers.id",
        "time": "headers.time",
    },
    "seldon": {
        "types": ["io.seldon.serving.inference.response", "io.seldon.serving.feedback"],
        "score": "body.data.ndarray || body.data.tensor.values",
        "label": "body.truth.data.ndarray || body.truth.data.tensor.values",
        "id": "headers.requestid || headers.id",
        "time": "headers.time",
        "class_names": "body.data.names",
    },
    "seldon-v2": {
        "score": "body.outputs[0].data",
        "id": 'headers."x-request-id" || body.id',
    },
    "bentoml": {
        "id": "body.request_id",
        "time": "body.timestamp",
    },
    "bentoml-otlp": {
        # Other records of the same process have no id of a request.
        "when": "body.request_id != `null` && body.timestamp != `null`",
        "score": "of_role(body, 'prediction')",
        "label": "of_role(body, 'target')",
        "id": "body.request_id",
        "time": "body.timestamp",
    },
    "genai-evaluation": {
        "types": ["gen_ai.evaluation.result"],
        "score": 'attributes."gen_ai.evaluation.score.value"',
        # The span that was evaluated is named where the answer's id is not known.
        "id": 'attributes."gen_ai.response.id" || headers.spanid',
        "time": "headers.time",
    },
    "sagemaker-labels": {
        "label": "body.groundTruthData.data",
        "id": "body.eventMetadata.inferenceId || body.eventMetadata.eventId",
    },
    "databricks": {
        "when": "body.status_code == `200`",
        "score": "parse_json(body.response).predictions",
        "id": "body.client_request_id || body.databricks_request_id",
        "time": "body.timestamp_ms",
        "time_unit": "ms",
        # Of a label in the same row: weights belong to labels.
        "label_probability": "body.sampling_fraction",
    },
    "ndjson": {
        "score": "body.score",
        "label": "body.label",
        "id": "body.id",
        "time": "body.time",
    },
}
"""Keys of a mapping by the preset's name. ``bentoml`` needs a `score`: its records have the
names that the service logs."""

ONE_ROW = frozenset({"bentoml", "bentoml-otlp", "genai-evaluation", "ndjson"})
"""Presets of senders that write one record a row: a list in it is the scores of its classes."""
