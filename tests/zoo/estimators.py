"""Estimators of scikit-learn and pipelines of them, with default options unless something else would be too large.

`tests.zoo.estimator_files` exports and stores them.
"""

from __future__ import annotations

from typing import Any

from tests.zoo.estimator_data import Case, Maker


def groups() -> dict[str, dict[str, Case]]:
    """All cases, by the name of their group and their own name."""
    return {
        "Classifiers": classifiers(),
        "Regressors": regressors(),
        "Transformers, clusters, mixtures and outliers": others(),
        "Strings": strings(),
        "Pipelines": pipelines(),
    }


def classifiers() -> dict[str, Case]:
    """Each classifier with two and with three labels that are strings; some with integers, too."""
    from sklearn import (
        calibration,
        discriminant_analysis,
        ensemble,
        linear_model,
        model_selection,
        multiclass,
        multioutput,
        naive_bayes,
        neighbors,
        neural_network,
        svm,
        tree,
    )

    small: dict[str, Any] = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
    simple, plain = linear_model.LogisticRegression, {"zipmap": False}
    parts = [("a", simple()), ("b", tree.DecisionTreeClassifier(max_depth=3, random_state=0))]
    makers: dict[str, Maker] = {
        "AdaBoostClassifier": lambda: ensemble.AdaBoostClassifier(n_estimators=4, random_state=0),
        "BaggingClassifier": lambda: ensemble.BaggingClassifier(simple(), n_estimators=3, random_state=0),
        "BernoulliNB": naive_bayes.BernoulliNB,
        "CalibratedClassifierCV": lambda: calibration.CalibratedClassifierCV(simple(), cv=2),
        "DecisionTreeClassifier": lambda: tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "ExtraTreeClassifier": lambda: tree.ExtraTreeClassifier(max_depth=4, random_state=0),
        "ExtraTreesClassifier": lambda: ensemble.ExtraTreesClassifier(**small),
        "GaussianNB": naive_bayes.GaussianNB,
        "GradientBoostingClassifier": lambda: ensemble.GradientBoostingClassifier(**small),
        "GridSearchCV": lambda: model_selection.GridSearchCV(simple(), {"C": [0.1, 1.0]}, cv=2),
        "HistGradientBoostingClassifier": lambda: ensemble.HistGradientBoostingClassifier(
            max_iter=3, max_depth=3, min_samples_leaf=4, random_state=0
        ),
        "KNeighborsClassifier": lambda: neighbors.KNeighborsClassifier(3),
        "LinearDiscriminantAnalysis": discriminant_analysis.LinearDiscriminantAnalysis,
        "LogisticRegression": simple,
        "LogisticRegressionCV": lambda: linear_model.LogisticRegressionCV(cv=2, use_legacy_attributes=False),
        "MLPClassifier": lambda: neural_network.MLPClassifier((6,), max_iter=60, random_state=0),
        "NuSVC": lambda: svm.NuSVC(random_state=0),
        "OneVsRestClassifier": lambda: multiclass.OneVsRestClassifier(simple()),
        "PassiveAggressiveClassifier": lambda: linear_model.PassiveAggressiveClassifier(random_state=0),
        "Perceptron": lambda: linear_model.Perceptron(random_state=0),
        "QuadraticDiscriminantAnalysis": discriminant_analysis.QuadraticDiscriminantAnalysis,
        "RadiusNeighborsClassifier": lambda: neighbors.RadiusNeighborsClassifier(5.0),
        "RandomForestClassifier": lambda: ensemble.RandomForestClassifier(**small),
        "RidgeClassifier": linear_model.RidgeClassifier,
        "RidgeClassifierCV": linear_model.RidgeClassifierCV,
        "SGDClassifier": lambda: linear_model.SGDClassifier(random_state=0),
        "SGDClassifier of log loss": lambda: linear_model.SGDClassifier(loss="log_loss", random_state=0),
        "StackingClassifier": lambda: ensemble.StackingClassifier(parts, cv=2),
        "SVC": lambda: svm.SVC(random_state=0),
        "SVC with probabilities": lambda: svm.SVC(probability=True, random_state=0),
        "SVC of polynomials": lambda: svm.SVC(kernel="poly", random_state=0),
        "VotingClassifier": lambda: ensemble.VotingClassifier(parts, flatten_transform=False),
        "VotingClassifier of probabilities": lambda: ensemble.VotingClassifier(
            parts, voting="soft", flatten_transform=False
        ),
    }
    counts: dict[str, Maker] = {
        "CategoricalNB": lambda: naive_bayes.CategoricalNB(min_categories=8),
        "ComplementNB": naive_bayes.ComplementNB,
        "MultinomialNB": naive_bayes.MultinomialNB,
    }
    found = {}
    for data, group in (("numbers", makers), ("counts", counts)):
        for name, make in group.items():
            for kind in ("two words", "three words"):
                found[f"{name}, {kind}"] = Case(make, data, kind, plain)
    found |= {
        "LinearSVC, two words": Case(lambda: svm.LinearSVC(random_state=0), "numbers", "two words"),
        "LinearSVC, three words": Case(lambda: svm.LinearSVC(random_state=0), "numbers", "three words"),
        "OneVsOneClassifier, three integers": Case(
            lambda: multiclass.OneVsOneClassifier(simple()), "numbers", "three", plain
        ),
        "TunedThresholdClassifierCV, two words": Case(
            lambda: model_selection.TunedThresholdClassifierCV(simple(), cv=2),
            "numbers",
            "two words",
            plain,
        ),
    }
    for name in ("DecisionTreeClassifier", "GradientBoostingClassifier", "LogisticRegression", "SVC", "MLPClassifier"):
        for kind in ("two", "three"):
            found[f"{name}, {kind} integers"] = Case(makers[name], "numbers", kind, plain)
    for name in ("DecisionTreeClassifier", "RandomForestClassifier", "LogisticRegression", "SVC"):
        found[f"{name}, opset 12"] = Case(makers[name], "numbers", "three words", plain, opset=12)
    found["LogisticRegression, maps"] = Case(simple, "numbers", "three words")
    found["LogisticRegression, classes by column"] = Case(simple, "numbers", "three words", {"zipmap": "columns"})
    several: dict[str, Maker] = {
        "DecisionTreeClassifier": makers["DecisionTreeClassifier"],
        "KNeighborsClassifier": makers["KNeighborsClassifier"],
        "MultiOutputClassifier": lambda: multioutput.MultiOutputClassifier(simple()),
        "RandomForestClassifier": makers["RandomForestClassifier"],
    }
    for name, make in several.items():
        found[f"{name}, two columns"] = Case(make, "counts", "columns of classes", plain)
    for name in ("MLPClassifier", "OneVsRestClassifier"):
        found[f"{name}, several labels"] = Case(makers[name], "numbers", "several labels", plain)
    return found


def regressors() -> dict[str, Case]:
    from sklearn import (
        cross_decomposition,
        ensemble,
        gaussian_process,
        linear_model,
        multioutput,
        neighbors,
        neural_network,
        svm,
        tree,
    )

    small: dict[str, Any] = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
    parts = [("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3, random_state=0))]
    plain: dict[str, Maker] = {
        "ARDRegression": linear_model.ARDRegression,
        "AdaBoostRegressor": lambda: ensemble.AdaBoostRegressor(n_estimators=4, random_state=0),
        "BaggingRegressor": lambda: ensemble.BaggingRegressor(linear_model.Ridge(), n_estimators=3, random_state=0),
        "BayesianRidge": linear_model.BayesianRidge,
        "DecisionTreeRegressor": lambda: tree.DecisionTreeRegressor(max_depth=4, random_state=0),
        "ElasticNet": linear_model.ElasticNet,
        "ElasticNetCV": lambda: linear_model.ElasticNetCV(cv=2),
        "ExtraTreeRegressor": lambda: tree.ExtraTreeRegressor(max_depth=4, random_state=0),
        "ExtraTreesRegressor": lambda: ensemble.ExtraTreesRegressor(**small),
        "GradientBoostingRegressor": lambda: ensemble.GradientBoostingRegressor(**small),
        "HistGradientBoostingRegressor": lambda: ensemble.HistGradientBoostingRegressor(
            max_iter=3, max_depth=3, min_samples_leaf=4, random_state=0
        ),
        "HuberRegressor": linear_model.HuberRegressor,
        "KNeighborsRegressor": lambda: neighbors.KNeighborsRegressor(3),
        "Lars": linear_model.Lars,
        "LarsCV": lambda: linear_model.LarsCV(cv=2),
        "Lasso": linear_model.Lasso,
        "LassoCV": lambda: linear_model.LassoCV(cv=2),
        "LassoLars": linear_model.LassoLars,
        "LassoLarsCV": lambda: linear_model.LassoLarsCV(cv=2),
        "LassoLarsIC": linear_model.LassoLarsIC,
        "LinearRegression": linear_model.LinearRegression,
        "LinearSVR": lambda: svm.LinearSVR(random_state=0),
        "MLPRegressor": lambda: neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=60, random_state=0),
        "NuSVR": svm.NuSVR,
        "OrthogonalMatchingPursuit": linear_model.OrthogonalMatchingPursuit,
        "OrthogonalMatchingPursuitCV": lambda: linear_model.OrthogonalMatchingPursuitCV(cv=2),
        "PLSRegression": cross_decomposition.PLSRegression,
        "PassiveAggressiveRegressor": lambda: linear_model.PassiveAggressiveRegressor(random_state=0),
        "QuantileRegressor": linear_model.QuantileRegressor,
        "RANSACRegressor": lambda: linear_model.RANSACRegressor(random_state=0),
        "RadiusNeighborsRegressor": lambda: neighbors.RadiusNeighborsRegressor(5.0),
        "RandomForestRegressor": lambda: ensemble.RandomForestRegressor(**small),
        "Ridge": linear_model.Ridge,
        "RidgeCV": linear_model.RidgeCV,
        "SGDRegressor": lambda: linear_model.SGDRegressor(random_state=0),
        "SVR": svm.SVR,
        "StackingRegressor": lambda: ensemble.StackingRegressor(parts, cv=2),
        "TheilSenRegressor": lambda: linear_model.TheilSenRegressor(random_state=0),
        "VotingRegressor": lambda: ensemble.VotingRegressor(parts),
    }
    positive: dict[str, Maker] = {
        "GammaRegressor": linear_model.GammaRegressor,
        "PoissonRegressor": linear_model.PoissonRegressor,
        "TweedieRegressor": linear_model.TweedieRegressor,
    }
    several: dict[str, Maker] = {
        "MultiOutputRegressor": lambda: multioutput.MultiOutputRegressor(linear_model.Ridge()),
        "MultiTaskElasticNet": linear_model.MultiTaskElasticNet,
        "MultiTaskElasticNetCV": lambda: linear_model.MultiTaskElasticNetCV(cv=2),
        "MultiTaskLasso": linear_model.MultiTaskLasso,
        "MultiTaskLassoCV": lambda: linear_model.MultiTaskLassoCV(cv=2),
    }
    return {
        **{name: Case(make, "numbers", "values") for name, make in plain.items()},
        **{name: Case(make, "numbers", "amounts") for name, make in positive.items()},
        **{name: Case(make, "numbers", "pairs") for name, make in several.items()},
        "GaussianProcessRegressor of doubles": Case(gaussian_process.GaussianProcessRegressor, "doubles", "values"),
        "LinearRegression of doubles": Case(linear_model.LinearRegression, "doubles", "values"),
    }


def others() -> dict[str, Case]:
    """Transformers of numbers, clusterings, mixtures, and detectors of outliers."""
    from sklearn import (
        cluster,
        decomposition,
        ensemble,
        feature_selection,
        impute,
        linear_model,
        mixture,
        neighbors,
        pipeline,
        preprocessing,
        random_projection,
        svm,
    )
    from sklearn.feature_extraction.text import TfidfTransformer

    plain: dict[str, Maker] = {
        "BayesianGaussianMixture": lambda: mixture.BayesianGaussianMixture(n_components=2, random_state=0),
        "Binarizer": preprocessing.Binarizer,
        "FeatureUnion": lambda: pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2)),
        "FunctionTransformer": preprocessing.FunctionTransformer,
        "GaussianMixture": lambda: mixture.GaussianMixture(2, random_state=0),
        "GaussianRandomProjection": lambda: random_projection.GaussianRandomProjection(2, random_state=0),
        "IncrementalPCA": lambda: decomposition.IncrementalPCA(2),
        "IsolationForest": lambda: ensemble.IsolationForest(n_estimators=4, max_samples=16, random_state=0),
        "KBinsDiscretizer": lambda: preprocessing.KBinsDiscretizer(
            3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"
        ),
        "KBinsDiscretizer to numbers": lambda: preprocessing.KBinsDiscretizer(
            3, encode="ordinal", quantile_method="averaged_inverted_cdf"
        ),
        "KMeans": lambda: cluster.KMeans(3, n_init=1, random_state=0),
        "KNeighborsTransformer": lambda: neighbors.KNeighborsTransformer(n_neighbors=3),
        "KernelPCA": lambda: decomposition.KernelPCA(2, kernel="rbf"),
        "LocalOutlierFactor": lambda: neighbors.LocalOutlierFactor(5, novelty=True),
        "MaxAbsScaler": preprocessing.MaxAbsScaler,
        "MinMaxScaler": preprocessing.MinMaxScaler,
        "MiniBatchKMeans": lambda: cluster.MiniBatchKMeans(3, n_init=1, random_state=0),
        "NearestNeighbors": lambda: neighbors.NearestNeighbors(n_neighbors=3, radius=None),
        "Normalizer": preprocessing.Normalizer,
        "OneClassSVM": svm.OneClassSVM,
        "PCA": lambda: decomposition.PCA(2),
        "PolynomialFeatures": preprocessing.PolynomialFeatures,
        "PowerTransformer": preprocessing.PowerTransformer,
        "QuantileTransformer": lambda: preprocessing.QuantileTransformer(n_quantiles=10),
        "RandomTreesEmbedding": lambda: ensemble.RandomTreesEmbedding(
            3, max_depth=2, sparse_output=False, random_state=0
        ),
        "RobustScaler": preprocessing.RobustScaler,
        "SGDOneClassSVM": lambda: linear_model.SGDOneClassSVM(random_state=0),
        "StandardScaler": preprocessing.StandardScaler,
        "TruncatedSVD": lambda: decomposition.TruncatedSVD(2, random_state=0),
        "VarianceThreshold": feature_selection.VarianceThreshold,
    }
    by_class: dict[str, Maker] = {
        "GenericUnivariateSelect": lambda: feature_selection.GenericUnivariateSelect(param=50),
        "NeighborhoodComponentsAnalysis": lambda: neighbors.NeighborhoodComponentsAnalysis(2, random_state=0),
        "RFE": lambda: feature_selection.RFE(linear_model.LogisticRegression(), n_features_to_select=2),
        "RFECV": lambda: feature_selection.RFECV(linear_model.LogisticRegression(), cv=2),
        "SelectFdr": lambda: feature_selection.SelectFdr(alpha=0.9),
        "SelectFpr": lambda: feature_selection.SelectFpr(alpha=0.9),
        "SelectFromModel": lambda: feature_selection.SelectFromModel(linear_model.LogisticRegression()),
        "SelectFwe": lambda: feature_selection.SelectFwe(alpha=0.9),
        "SelectKBest": lambda: feature_selection.SelectKBest(k=2),
        "SelectPercentile": lambda: feature_selection.SelectPercentile(percentile=50),
    }
    return {
        **{name: Case(make) for name, make in plain.items()},
        **{name: Case(make, "numbers", "three") for name, make in by_class.items()},
        "KernelCenterer": Case(preprocessing.KernelCenterer, "distances"),
        "TfidfTransformer": Case(TfidfTransformer, "counts"),
        "SimpleImputer": Case(impute.SimpleImputer, "gaps"),
        "SimpleImputer of the most frequent": Case(lambda: impute.SimpleImputer(strategy="most_frequent"), "gaps"),
        "KNNImputer": Case(lambda: impute.KNNImputer(n_neighbors=2), "gaps"),
        "OneHotEncoder of integers": Case(lambda: preprocessing.OneHotEncoder(sparse_output=False), "integers"),
        "OrdinalEncoder of integers": Case(preprocessing.OrdinalEncoder, "integers"),
    }


def strings() -> dict[str, Case]:
    """Estimators that take strings."""
    from sklearn import impute, preprocessing
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    encoders: dict[str, Maker] = {
        "OneHotEncoder": preprocessing.OneHotEncoder,
        "OneHotEncoder that ignores": lambda: preprocessing.OneHotEncoder(handle_unknown="ignore"),
        "OneHotEncoder that drops": lambda: preprocessing.OneHotEncoder(drop="first"),
        "OrdinalEncoder": preprocessing.OrdinalEncoder,
        "OrdinalEncoder of the unknown": lambda: preprocessing.OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1
        ),
        "SimpleImputer of strings": lambda: impute.SimpleImputer(strategy="most_frequent", missing_values=""),
    }
    vectorizers: dict[str, Maker] = {
        "CountVectorizer": CountVectorizer,
        "CountVectorizer of pairs": lambda: CountVectorizer(ngram_range=(1, 2)),
        "CountVectorizer, binary": lambda: CountVectorizer(binary=True),
        "CountVectorizer of a pattern": lambda: CountVectorizer(token_pattern="[a-z]+"),
        "TfidfVectorizer": TfidfVectorizer,
        "TfidfVectorizer without stop words": lambda: TfidfVectorizer(stop_words=["the", "a"]),
        "TfidfVectorizer of logarithms": lambda: TfidfVectorizer(sublinear_tf=True, lowercase=False),
        "TfidfVectorizer of characters": lambda: TfidfVectorizer(analyzer="char"),
    }
    return {
        **{name: Case(make, "words") for name, make in encoders.items()},
        **{name: Case(make, "texts") for name, make in vectorizers.items()},
        "TargetEncoder": Case(lambda: preprocessing.TargetEncoder(random_state=0, cv=2), "words", "values"),
        "FeatureHasher": Case(lambda: FeatureHasher(8, input_type="string"), "words"),
        "FeatureHasher of positive numbers": Case(
            lambda: FeatureHasher(8, input_type="string", alternate_sign=False), "words"
        ),
        "LabelEncoder": Case(preprocessing.LabelEncoder, "label"),
        "LabelBinarizer": Case(preprocessing.LabelBinarizer, "labels"),
    }


def pipelines() -> dict[str, Case]:
    from sklearn import (
        compose,
        decomposition,
        ensemble,
        impute,
        linear_model,
        naive_bayes,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer

    small: dict[str, Any] = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
    scaled, chain = preprocessing.StandardScaler, pipeline.make_pipeline

    def columns(encoder: Any) -> Any:
        parts = [("numbers", scaled(), [0, 1]), ("words", encoder, [2, 3])]
        return compose.ColumnTransformer(parts)

    def encoded() -> Any:
        return columns(preprocessing.OneHotEncoder(handle_unknown="ignore"))

    ordinal = preprocessing.OrdinalEncoder
    mixed: dict[str, tuple[Maker, str]] = {
        "ColumnTransformer": (encoded, ""),
        "ColumnTransformer, LogisticRegression": (
            lambda: chain(encoded(), linear_model.LogisticRegression()),
            "two words",
        ),
        "ColumnTransformer, RandomForestClassifier": (
            lambda: chain(columns(ordinal()), ensemble.RandomForestClassifier(**small)),
            "three words",
        ),
        "ColumnTransformer, GradientBoostingRegressor": (
            lambda: chain(encoded(), ensemble.GradientBoostingRegressor(**small)),
            "values",
        ),
        "ColumnTransformer, SVC": (lambda: chain(encoded(), svm.SVC(random_state=0)), "three words"),
    }
    texts: dict[str, Maker] = {
        "TfidfVectorizer, LogisticRegression": lambda: chain(TfidfVectorizer(), linear_model.LogisticRegression()),
        "CountVectorizer, MultinomialNB": lambda: chain(CountVectorizer(), naive_bayes.MultinomialNB()),
        "CountVectorizer, TfidfTransformer, SGDClassifier": lambda: chain(
            CountVectorizer(), TfidfTransformer(), linear_model.SGDClassifier(random_state=0)
        ),
        "TfidfVectorizer, TruncatedSVD, LogisticRegression": lambda: chain(
            TfidfVectorizer(), decomposition.TruncatedSVD(2, random_state=0), linear_model.LogisticRegression()
        ),
    }
    numbers: dict[str, tuple[Maker, str, str]] = {
        "StandardScaler, MLPClassifier": (
            lambda: chain(scaled(), neural_network.MLPClassifier((6,), max_iter=60, random_state=0)),
            "numbers",
            "three words",
        ),
        "PCA, SVC": (lambda: chain(decomposition.PCA(2), svm.SVC(random_state=0)), "numbers", "two words"),
        "SimpleImputer, DecisionTreeClassifier": (
            lambda: chain(impute.SimpleImputer(), tree.DecisionTreeClassifier(max_depth=4, random_state=0)),
            "gaps",
            "three words",
        ),
        "PolynomialFeatures, Ridge": (
            lambda: chain(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
            "numbers",
            "values",
        ),
        "MinMaxScaler, KBinsDiscretizer, LogisticRegression": (
            lambda: chain(
                preprocessing.MinMaxScaler(),
                preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
                linear_model.LogisticRegression(),
            ),
            "numbers",
            "three words",
        ),
        "OneHotEncoder, LogisticRegression": (
            lambda: chain(preprocessing.OneHotEncoder(), linear_model.LogisticRegression()),
            "words",
            "two words",
        ),
    }

    def case(make: Maker, data: str, goal: str) -> Case:
        return Case(make, data, goal or None, {"zipmap": False} if "words" in goal else None)

    return {
        **{name: case(make, "columns", goal) for name, (make, goal) in mixed.items()},
        **{name: case(make, "texts", "two words") for name, make in texts.items()},
        **{name: case(make, data, goal) for name, (make, data, goal) in numbers.items()},
    }
