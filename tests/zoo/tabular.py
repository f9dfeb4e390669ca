"""Models of tabular data: scikit-learn, XGBoost and LightGBM, fitted to seeded data and exported by their converters.

Exports are stored next to those of `tests.zoo.export` in the same form. They are compared only with ONNX Runtime,
because the libraries compute in float64, and their converters write float32.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

COLUMNS = 6
ROWS = 120
OPSETS = {"": 18, "ai.onnx.ml": 3}
"""Opsets that the converter of scikit-learn supports for every estimator below."""

BATCHES = (1, 2, 7, 33)
"""Number of rows in each round."""


NAMES = (
    "decision-tree-classifier",
    "decision-tree-regressor",
    "random-forest-classifier",
    "random-forest-regressor",
    "extra-trees-classifier",
    "gradient-boosting-classifier",
    "gradient-boosting-regressor",
    "hist-gradient-boosting-classifier",
    "hist-gradient-boosting-regressor",
    "ada-boost-classifier",
    "bagging-regressor",
    "isolation-forest",
    "voting-classifier",
    "linear-regression",
    "logistic-regression",
    "ridge-classifier",
    "sgd-classifier",
    "svc",
    "svr",
    "linear-svc",
    "nearest-classifier",
    "nearest-regressor",
    "gaussian-naive-bayes",
    "gaussian-mixture",
    "gaussian-process-regressor",
    "k-means",
    "mlp-classifier",
    "mlp-regressor",
    "pca",
    "polynomial",
    "normalizer",
    "robust-scaler",
    "power-transformer",
    "select-k-best",
    "column-transformer",
    "xgboost-classifier",
    "xgboost-regressor",
    "lightgbm-classifier",
    "lightgbm-regressor",
)
"""The names of all cases."""


def estimators() -> dict[str, Callable[[], Any]]:
    """Constructors of unfitted estimators, by the name of the case."""
    import lightgbm
    import xgboost
    from sklearn import (
        cluster,
        compose,
        decomposition,
        ensemble,
        feature_selection,
        gaussian_process,
        linear_model,
        mixture,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    small = {"n_estimators": 8, "max_depth": 4, "random_state": 0}

    def scaled(*steps: Any) -> Any:
        return pipeline.make_pipeline(preprocessing.StandardScaler(), *steps)

    def columns() -> Any:
        parts = [
            ("scaled", preprocessing.StandardScaler(), [0, 1, 2]),
            ("ranged", preprocessing.MinMaxScaler(), [3, 4]),
            (
                "binned",
                preprocessing.KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
                [5],
            ),
        ]
        return compose.ColumnTransformer(parts)

    return {
        "decision-tree-classifier": lambda: tree.DecisionTreeClassifier(max_depth=5, random_state=0),
        "decision-tree-regressor": lambda: tree.DecisionTreeRegressor(max_depth=5, random_state=0),
        "random-forest-classifier": lambda: ensemble.RandomForestClassifier(**small),
        "random-forest-regressor": lambda: ensemble.RandomForestRegressor(**small),
        "extra-trees-classifier": lambda: ensemble.ExtraTreesClassifier(**small),
        "gradient-boosting-classifier": lambda: ensemble.GradientBoostingClassifier(**small),
        "gradient-boosting-regressor": lambda: ensemble.GradientBoostingRegressor(**small),
        "hist-gradient-boosting-classifier": lambda: ensemble.HistGradientBoostingClassifier(
            max_iter=8, random_state=0
        ),
        "hist-gradient-boosting-regressor": lambda: ensemble.HistGradientBoostingRegressor(max_iter=8, random_state=0),
        "ada-boost-classifier": lambda: ensemble.AdaBoostClassifier(n_estimators=8, random_state=0),
        "bagging-regressor": lambda: ensemble.BaggingRegressor(n_estimators=4, random_state=0),
        "isolation-forest": lambda: ensemble.IsolationForest(n_estimators=8, random_state=0),
        "voting-classifier": lambda: ensemble.VotingClassifier(
            [("a", tree.DecisionTreeClassifier(max_depth=3)), ("b", linear_model.LogisticRegression())],
            voting="soft",
            flatten_transform=False,
        ),
        "linear-regression": linear_model.LinearRegression,
        "logistic-regression": lambda: scaled(linear_model.LogisticRegression()),
        "ridge-classifier": lambda: scaled(linear_model.RidgeClassifier()),
        "sgd-classifier": lambda: scaled(linear_model.SGDClassifier(loss="log_loss", random_state=0)),
        "svc": lambda: scaled(svm.SVC(probability=False, random_state=0)),
        "svr": lambda: scaled(svm.SVR()),
        "linear-svc": lambda: scaled(svm.LinearSVC(random_state=0)),
        "nearest-classifier": lambda: neighbors.KNeighborsClassifier(3),
        "nearest-regressor": lambda: neighbors.KNeighborsRegressor(3),
        "gaussian-naive-bayes": naive_bayes.GaussianNB,
        "gaussian-mixture": lambda: mixture.GaussianMixture(3, random_state=0),
        "gaussian-process-regressor": gaussian_process.GaussianProcessRegressor,
        "k-means": lambda: cluster.KMeans(4, random_state=0, n_init=1),
        "mlp-classifier": lambda: scaled(
            neural_network.MLPClassifier(hidden_layer_sizes=(16, 8), max_iter=30, random_state=0)
        ),
        "mlp-regressor": lambda: scaled(
            neural_network.MLPRegressor(hidden_layer_sizes=(16,), max_iter=30, random_state=0)
        ),
        "pca": lambda: scaled(decomposition.PCA(3)),
        "polynomial": lambda: pipeline.make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
        "normalizer": preprocessing.Normalizer,
        "robust-scaler": preprocessing.RobustScaler,
        "power-transformer": preprocessing.PowerTransformer,
        "select-k-best": lambda: pipeline.make_pipeline(
            feature_selection.SelectKBest(k=3), linear_model.LogisticRegression()
        ),
        "column-transformer": lambda: pipeline.make_pipeline(columns(), ensemble.RandomForestClassifier(**small)),
        "xgboost-classifier": lambda: xgboost.XGBClassifier(**small),
        "xgboost-regressor": lambda: xgboost.XGBRegressor(**small),
        "lightgbm-classifier": lambda: lightgbm.LGBMClassifier(verbose=-1, num_leaves=8, n_estimators=8),
        "lightgbm-regressor": lambda: lightgbm.LGBMRegressor(verbose=-1, num_leaves=8, n_estimators=8),
    }


def export(name: str, folder: Path) -> dict[str, Any]:
    """Fit and export the case of this name; returns the outcome."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    target = table[:, 0] + table[:, 1] * table[:, 2] + 0.1 * rng.standard_normal(ROWS)
    classes = np.digitize(target, [-0.7, 0.7])
    estimator = estimators()[name]()
    classifies = getattr(estimator, "_estimator_type", None) == "classifier" or hasattr(estimator, "predict_proba")
    estimator.fit(table, classes if classifies or "classifier" in name or "svc" in name or "select" in name else target)
    model = _convert(name, estimator)
    onnx.save(model, folder / "model.onnx")
    stored = {}
    for number, batch in enumerate(BATCHES):
        rows = np.random.default_rng(100 + number).standard_normal((batch, COLUMNS)).astype(np.float32)
        stored[f"{number}/input/x"] = rows
    np.savez_compressed(folder / "data.npz", **stored)
    return {"outputs": [port.name for port in model.graph.output], "dims": ["batch"]}


def _convert(name: str, estimator: Any) -> onnx.ModelProto:
    if name.startswith(("xgboost", "lightgbm")):
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        convert = onnxmltools.convert_xgboost if name.startswith("xgboost") else onnxmltools.convert_lightgbm
        options = {"zipmap": False} if name == "lightgbm-classifier" else {}
        return convert(estimator, initial_types=[("x", FloatTensorType([None, COLUMNS]))], **options)
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    tables = hasattr(estimator, "predict_proba") and not name.startswith("gaussian-mixture")
    options = {id(estimator): {"zipmap": False}} if tables else None
    types = [("x", FloatTensorType([None, COLUMNS]))]
    return skl2onnx.convert_sklearn(estimator, initial_types=types, options=options, target_opset=OPSETS)


def exporter(name: str) -> str:
    return "onnxmltools" if name.startswith(("xgboost", "lightgbm")) else "skl2onnx"
