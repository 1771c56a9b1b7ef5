//! The flows of a mix: how they are weighted, and what became of their iterations.

use serde::{Deserialize, Serialize};

/// The tag that every sample of a flow has, with the flow's name.
pub(crate) const FLOW_TAG: &str = "flow";

/// One of the flows that a scenario mixes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FlowInfo {
    pub(crate) name: String,
    pub(crate) weight: u32,
}

/// What became of the iterations of one flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FlowStats {
    /// Ended: well, with an error, or by a panic.
    pub(crate) iterations: u64,
    pub(crate) failed_iterations: u64,
    pub(crate) interrupted_iterations: u64,
}

impl FlowStats {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.iterations += other.iterations;
        self.failed_iterations += other.failed_iterations;
        self.interrupted_iterations += other.interrupted_iterations;
    }
}
