//! From the flags to the scenarios that are to run: discover, build, ask each binary, filter, override.

use std::collections::BTreeMap;

use super::Invocation;
use super::args::{COMMANDS, NoTests};
use super::problem::Problem;
use crate::model::event::Warning;
use crate::model::plan::ScenarioInfo;
use crate::model::verdict::Outcome;
use crate::tool::build::{ScenarioBuild, build_scenarios};
use crate::tool::config::{self, Config, Flags};
use crate::tool::discover::{ScenarioTarget, Workspace, discover};
use crate::tool::drive::{self, Launch};

/// A scenario binary, and those of its scenarios that match.
#[derive(Debug)]
pub(super) struct Binary {
    pub(super) target: ScenarioTarget,
    pub(super) launch: Launch,
    pub(super) config: Config,
    /// With the load that they will have.
    pub(super) scenarios: Vec<ScenarioInfo>,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) workspace: Workspace,
    pub(super) binaries: Vec<Binary>,
    /// Targets whose scenarios nobody knows.
    pub(super) unusable: Vec<Unusable>,
}

/// A target that does not compile, or does not say which scenarios it has.
#[derive(Debug)]
pub(super) struct Unusable {
    target: ScenarioTarget,
    problem: Problem,
}

/// A filter that is the name of a command stands where a command was meant.
pub(super) fn check_filters(filters: &[String]) -> Result<(), Problem> {
    match filters.iter().find(|filter| COMMANDS.contains(&filter.as_str())) {
        None => Ok(()),
        Some(command) => Err(Problem::new(
            Outcome::Usage,
            format!(
                "`{command}` is a command, not a filter: put the command first, as in `cargo loadtest {command} …`"
            ),
        )),
    }
}

/// The workspace, with what cargo and the search for targets had to say.
pub(super) async fn workspace(call: &Invocation) -> Result<Workspace, Problem> {
    let workspace = discover(&call.cargo, &call.flags).await?;
    workspace.warnings.iter().for_each(|warning| call.console.warning(warning));
    Ok(workspace)
}

/// Builds the workspace's scenario binaries and asks each of them. What does not match `filters` is left out; what
/// cannot be asked is in [`Found::unusable`].
pub(super) async fn scenarios(
    call: &Invocation,
    filters: &[String],
    flags: &Flags,
) -> Result<Found, Problem> {
    let workspace = workspace(call).await?;
    // A mistake in the configuration is told before minutes of building, and where there is nothing to build.
    config::load(&workspace.root, None, flags)?;
    let mut configs = BTreeMap::new();
    for target in &workspace.scenarios {
        if !configs.contains_key(&target.package_folder) {
            let config = config::load(&workspace.root, Some(&target.package_folder), flags)?;
            configs.insert(target.package_folder.clone(), config);
        }
    }
    let ScenarioBuild { built, failed } =
        build_scenarios(&call.cargo, &call.flags, &workspace.scenarios).await?;
    let mut unusable: Vec<Unusable> = failed.into_iter().map(Unusable::not_built).collect();
    let mut binaries = Vec::new();
    for scenario in built {
        let target = scenario.target;
        let launch = Launch {
            target: format!("{}::{}", target.package, target.name),
            executable: scenario.executable,
            folder: target.package_folder.clone(),
        };
        let Some(config) = configs.get(&target.package_folder).cloned() else { continue };
        let mut scenarios = match drive::list(&launch).await {
            Ok(scenarios) => scenarios,
            Err(error) => {
                unusable.push(Unusable { target, problem: error.into() });
                continue;
            }
        };
        scenarios.retain(|info| matches(filters, &target.package, &info.name));
        let overrides = config.overrides();
        for info in &mut scenarios {
            if let Some(over) = overrides.get(&info.name).or_else(|| overrides.get("*")) {
                let load = over.apply(&info.load);
                info.load = load.and_then(|load| info.timing.check(&load).map(|()| load)).map_err(|why| {
                    Problem::new(Outcome::Usage, format!("scenario `{}`: {why}", info.name))
                })?;
            }
        }
        if !scenarios.is_empty() {
            binaries.push(Binary { target, launch, config, scenarios });
        }
    }
    Ok(Found { workspace, binaries, unusable })
}

fn matches(filters: &[String], package: &str, scenario: &str) -> bool {
    let name = format!("{package}::{scenario}");
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
}

impl Unusable {
    fn not_built(target: ScenarioTarget) -> Self {
        let message = format!("could not build {}::{}", target.package, target.name);
        Self { target, problem: Problem::new(Outcome::BuildFailed, message) }
    }
}

impl Found {
    /// What is wrong with the unusable targets that are asked for: with all of them without a filter; with one, with those
    /// whose `package::target` it fits, or else with all where nothing fits, since nobody knows which scenarios they
    /// have.
    pub(super) fn unusable_and_wanted(&self, filters: &[String]) -> Option<Problem> {
        let fits = |unusable: &&Unusable| matches(filters, &unusable.target.package, &unusable.target.name);
        let mut wanted: Vec<&Unusable> = self.unusable.iter().filter(fits).collect();
        if wanted.is_empty() && self.binaries.is_empty() {
            wanted = self.unusable.iter().collect();
        }
        let problems: Vec<&Problem> = wanted.iter().map(|unusable| &unusable.problem).collect();
        let first = problems.iter().min_by_key(|problem| problem.outcome)?;
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        Some(Problem { hint: first.hint, ..Problem::new(first.outcome, messages.join("\n")) })
    }

    /// Says which targets are left out because they are unusable.
    pub(super) fn warn_of_unusable(&self, call: &Invocation) {
        for Unusable { problem, .. } in &self.unusable {
            call.console.warning(&Warning::new("left-out", problem.message.as_str()));
        }
    }

    /// Why nothing is to run, if so: `None` when something is.
    pub(super) fn nothing(&self, filters: &[String]) -> Option<String> {
        if !self.binaries.is_empty() {
            return None;
        }
        Some(if self.workspace.scenarios.is_empty() {
            "no scenario was found: a scenario is a [[bench]] in a package's `loadtests/` folder".to_owned()
        } else {
            format!("no scenario matches `{}`; `cargo loadtest list` shows all", filters.join("`, `"))
        })
    }
}

/// What `--no-tests` makes of there being nothing to run.
pub(super) fn nothing_to_run(call: &Invocation, action: NoTests, why: String) -> Result<u8, Problem> {
    match action {
        NoTests::Pass => Ok(0),
        NoTests::Warn => {
            call.console.warning(&Warning::new("no-scenario", why));
            Ok(0)
        }
        NoTests::Fail => {
            let hint =
                why.starts_with("no scenario was found").then_some("`cargo loadtest new NAME` writes one");
            Err(Problem { hint, ..Problem::new(Outcome::NoMatch, why) })
        }
    }
}
