//! Whether anything succeeded, and if nothing did, why.

use super::summary::Scenario;

/// Stands for the errors that were too various to keep word for word.
pub(super) const OTHER_MESSAGES: &str = "(other messages)";

/// Why the run counts as one that could not run, where no iteration of any scenario succeeded: the commonest error.
pub(crate) fn no_success(scenarios: &[Scenario]) -> Option<String> {
    let sum = |of: fn(&Scenario) -> u64| scenarios.iter().map(of).sum::<u64>();
    if sum(succeeded) > 0 {
        return None;
    }
    let errors = scenarios.iter().flat_map(|scenario| &scenario.errors);
    let commonest = errors.filter(|error| error.message != OTHER_MESSAGES).max_by_key(|error| error.count);
    let (failed, interrupted) = (sum(|s| s.failed_iterations), sum(|s| s.interrupted_iterations));
    Some(match commonest {
        Some(error) => format!(
            "no iteration succeeded: {failed} failed, most often ({} times) with: {}",
            error.count, error.message
        ),
        None if interrupted > 0 => {
            format!("no iteration succeeded: {interrupted} were cut off before their end")
        }
        None => in_warm_up(scenarios).unwrap_or_else(|| "no iteration succeeded: none ended".to_owned()),
    })
}

/// Why nothing was measured, where the warm-up had all there was.
fn in_warm_up(scenarios: &[Scenario]) -> Option<String> {
    let warm_ups = scenarios.iter().filter_map(|scenario| scenario.warm_up.as_ref());
    let longest = warm_ups.clone().map(|warm_up| warm_up.duration_s).fold(0.0, f64::max);
    let iterations: u64 = warm_ups.map(|warm_up| warm_up.iterations).sum();
    (iterations > 0).then(|| {
        format!(
            "nothing was measured: all iterations ({iterations}) began in the warm-up of {longest} s; shorten it, or ask \
             for more iterations"
        )
    })
}

pub(super) fn succeeded(scenario: &Scenario) -> u64 {
    scenario.iterations.saturating_sub(scenario.failed_iterations)
}
