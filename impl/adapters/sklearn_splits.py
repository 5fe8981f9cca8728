"""scikit-learn: splitters, steps that are fitted, and a protocol, each a part: `sklearn:group-kfold`.

A splitter's signature says what it promises: one without `groups` does not keep groups whole, and is not asked to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn import feature_extraction, feature_selection, impute, model_selection, neighbors, preprocessing
from sklearn.pipeline import make_pipeline

from gnomon.impl.declaration import Declaration

Array = np.ndarray[Any, np.dtype[Any]]
Pair = tuple[Array, Array]
Make = Callable[..., Any]

_DATA = Declaration(framework="numpy", dtypes=("float64",), families=())


@dataclass(frozen=True, eq=False)
class Splitter:
    """A splitter of rows alone."""

    make: Make
    declaration: Declaration = _DATA

    def split_rows(self, rows: Array, *, parts: int = 5, seed: int = 0) -> list[Pair]:
        """Training and held-out rows, at random."""
        return list(self.make(parts, seed).split(rows))


@dataclass(frozen=True, eq=False)
class Stratified:
    """A splitter that spreads labels."""

    make: Make
    declaration: Declaration = _DATA

    def split_rows(self, rows: Array, *, labels: Array, parts: int = 5, seed: int = 0) -> list[Pair]:
        """Training and held-out rows with the same shares of labels."""
        return list(self.make(parts, seed).split(rows, labels))


@dataclass(frozen=True, eq=False)
class Grouped:
    """A splitter that keeps groups whole."""

    make: Make
    declaration: Declaration = _DATA

    def split_rows(self, rows: Array, *, groups: Array, parts: int = 5, seed: int = 0) -> list[Pair]:
        """Training and held-out groups."""
        return list(self.make(parts, seed).split(rows, None, groups))


@dataclass(frozen=True, eq=False)
class StratifiedGrouped:
    """A splitter that keeps groups whole and spreads labels."""

    make: Make
    declaration: Declaration = _DATA

    def split_rows(
        self, rows: Array, *, groups: Array, labels: Array | None = None, parts: int = 5, seed: int = 0
    ) -> list[Pair]:
        """Training and held-out groups; where no labels are given, all are one."""
        own = np.zeros(len(rows), int) if labels is None else labels
        return list(self.make(parts, seed).split(rows, own, groups))


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """TimeSeriesSplit, which takes the order of the rows for time: they are handed to it sorted."""

    declaration: Declaration = _DATA

    def split_rows(
        self, rows: Array, *, times: Array | None = None, window: int | None = None, parts: int = 5
    ) -> list[Pair]:
        """What came before and what comes next, so far apart that windows share nothing."""
        if times is not None and len(np.unique(times)) < len(times):
            raise NotImplementedError("TimeSeriesSplit is for rows that each have a time of their own")
        order = np.arange(len(rows)) if times is None else np.argsort(times)
        splitter = model_selection.TimeSeriesSplit(parts, gap=(window or 1) - 1)
        return [(order[train], order[held]) for train, held in splitter.split(rows)]


def _shuffled(splitter: Make, parts: int, seed: int) -> Any:
    return splitter(parts, shuffle=True, random_state=seed)


shuffle_split = Splitter(lambda parts, seed: model_selection.ShuffleSplit(parts, test_size=0.25, random_state=seed))
kfold = Splitter(lambda parts, seed: _shuffled(model_selection.KFold, parts, seed))
kfold_in_order = Splitter(lambda parts, seed: model_selection.KFold(parts))
repeated_kfold = Splitter(lambda parts, seed: model_selection.RepeatedKFold(n_splits=parts, random_state=seed))
leave_one_out = Splitter(lambda parts, seed: model_selection.LeaveOneOut())
stratified_kfold = Stratified(lambda parts, seed: _shuffled(model_selection.StratifiedKFold, parts, seed))
stratified_shuffle_split = Stratified(
    lambda parts, seed: model_selection.StratifiedShuffleSplit(parts, test_size=0.25, random_state=seed)
)
group_kfold = Grouped(lambda parts, seed: model_selection.GroupKFold(parts))
group_kfold_shuffled = Grouped(lambda parts, seed: _shuffled(model_selection.GroupKFold, parts, seed))
group_shuffle_split = Grouped(lambda parts, seed: model_selection.GroupShuffleSplit(parts, random_state=seed))
leave_one_group_out = Grouped(lambda parts, seed: model_selection.LeaveOneGroupOut())
leave_two_groups_out = Grouped(lambda parts, seed: model_selection.LeavePGroupsOut(2))
stratified_group_kfold = StratifiedGrouped(
    lambda parts, seed: _shuffled(model_selection.StratifiedGroupKFold, parts, seed)
)
time_series_split = TimeSeries()


# What is fitted.


@dataclass(frozen=True, eq=False)
class Estimator:
    """An estimator as one of the steps."""

    step: str
    make: Callable[[], Any]
    declaration: Declaration = _DATA

    def pipeline(self, step: str) -> "Fitted":
        """The step, if it is this one."""
        if step != self.step:
            raise NotImplementedError(f"it is a step of the kind {self.step}")
        return Fitted(self.make(), step)


@dataclass(eq=False)
class Fitted:
    """An estimator that is given its training rows and nothing else."""

    estimator: Any
    step: str
    learnt: dict[str, Any] = field(default_factory=dict)

    def fit(self, rows: Array, labels: Array, train: Array) -> None:
        """Fit it again."""
        own = rows[train]
        self.estimator.fit(own[:, None] if self.step == "encode" else own, labels[train])

    def state(self) -> dict[str, Any]:
        """Every attribute that ends in an underscore, as scikit-learn names what was fitted."""
        return plain("", vars(self.estimator))


def plain(name: str, thing: Any) -> dict[str, Any]:
    """Numbers, texts and arrays by name, out of attributes, mappings, lists and estimators."""
    if hasattr(thing, "get_params") and not isinstance(thing, type):
        return plain(name, vars(thing))
    if hasattr(thing, "toarray"):
        thing = thing.toarray()
    if isinstance(thing, Mapping):
        inner = [(str(key), value) for key, value in sorted(thing.items(), key=lambda item: str(item[0]))]
    elif isinstance(thing, list | tuple):
        inner = [(str(place), value) for place, value in enumerate(thing)]
    else:
        simple = isinstance(thing, np.ndarray | np.generic | int | float | str | bool)
        return {name: np.asarray(thing)} if simple else {}
    return {key: value for part, item in inner for key, value in plain(f"{name}.{part}".strip("."), item).items()}


standard_scaler = Estimator("scale", preprocessing.StandardScaler)
min_max_scaler = Estimator("scale", preprocessing.MinMaxScaler)
robust_scaler = Estimator("scale", preprocessing.RobustScaler)
quantile_transformer = Estimator(
    "scale", lambda: preprocessing.QuantileTransformer(n_quantiles=5, subsample=None, random_state=0)
)
power_transformer = Estimator("scale", lambda: preprocessing.PowerTransformer(standardize=True))
simple_imputer = Estimator("impute", lambda: impute.SimpleImputer(keep_empty_features=True))
knn_imputer = Estimator("impute", lambda: impute.KNNImputer(n_neighbors=2, keep_empty_features=True))
select_k_best = Estimator("select", lambda: feature_selection.SelectKBest(k=2))
target_encoder = Estimator("encode", lambda: preprocessing.TargetEncoder(target_type="binary", cv=2))
one_hot_encoder = Estimator("encode", lambda: preprocessing.OneHotEncoder(handle_unknown="ignore"))
ordinal_encoder = Estimator("encode", preprocessing.OrdinalEncoder)
count_vectorizer = Estimator("vocabulary", feature_extraction.text.CountVectorizer)
tfidf_vectorizer = Estimator("vocabulary", feature_extraction.text.TfidfVectorizer)


@dataclass(frozen=True, eq=False)
class Protocol:
    """Features are chosen inside the pipeline, which is fitted on the training half."""

    declaration: Declaration = _DATA

    def protocol(self, rows: Array, labels: Array, *, seed: int = 0) -> tuple[int, int]:
        """Right answers and answers on the held-out half."""
        halves = model_selection.train_test_split(rows, labels, test_size=0.5, random_state=seed)
        train, held, train_labels, held_labels = halves
        model = make_pipeline(feature_selection.SelectKBest(k=10), neighbors.KNeighborsClassifier(3))
        right = model.fit(train, train_labels).predict(held) == held_labels
        return int(right.sum()), len(held)


protocol = Protocol()
