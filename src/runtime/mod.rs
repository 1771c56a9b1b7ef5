//! The half that is linked into scenario binaries: it drives load, measures it and emits spans.
