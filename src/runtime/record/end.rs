//! How requests, iterations and timed steps end.

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    Response {
        status: u16,
        expected: bool,
        bytes_received: u64,
    },
    /// No whole response: the class of the error. After a timeout the duration is a lower bound.
    Error {
        class: &'static str,
        timed_out: bool,
    },
    /// Cut off by the end of the run.
    Interrupted,
}

/// How an iteration, or a timed step, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkEnd {
    Done,
    Failed(String),
    Panicked(String),
    Interrupted,
}
