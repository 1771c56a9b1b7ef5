use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Program, ServiceSpec};

/// A service that is a shell script.
pub(super) fn spec(name: &str, script: &str) -> ServiceSpec {
    ServiceSpec {
        name: name.to_owned(),
        program: Program::Command("sh".to_owned()),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: BTreeMap::new(),
        dir: PathBuf::from("."),
        port: None,
        ready: None,
        ready_timeout: ServiceSpec::READY_TIMEOUT,
    }
}
