//! What the demo claims, checked on the summaries of its two runs.

use crate::summary::{Attribution, Summary};

const REGISTER: &str = "POST /auth/register";
const HASH: &str = "bcrypt.hash";
/// With fewer requests a band says nothing.
const ENOUGH: u64 = 30;
/// How far the rows may be from the mean, in milliseconds.
const ROUNDING: f64 = 0.1;
/// The share of traced requests whose whole chain of spans arrived.
const JOINED: f64 = 0.99;
/// How much lower p95 is at cost 10: the hash itself takes a quarter of the time.
const LOWER: f64 = 2.5;

/// Something that the demo shows, and whether it did.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) what: String,
    pub(crate) holds: bool,
    pub(crate) seen: String,
}

/// `dear` is the run at cost 12, `cheap` the one at cost 10.
pub(crate) fn of(dear: &Summary, cheap: &Summary) -> Vec<Claim> {
    let mut claims = vec![joined(dear), chain(dear)];
    claims.extend(bands(dear).map(|band| hash_is_first(dear, band)));
    claims.push(lower(dear, cheap));
    claims
}

fn joined(run: &Summary) -> Claim {
    let share = run.run.trace.requests_joined_share.unwrap_or(0.0);
    Claim {
        what: format!(
            "at least {:.0}% of the traced requests are joined with their server spans",
            JOINED * 100.0
        ),
        holds: share >= JOINED,
        seen: format!("{:.1}%", share * 100.0),
    }
}

/// Request → gateway → auth → hash, and on to the user service and its database.
fn chain(run: &Summary) -> Claim {
    let operations = find(run, "all").map_or(&[][..], |all| &all.operations);
    let has = |service: &str, operation: &str| {
        operations.iter().any(|seen| seen.service == service && seen.operation.starts_with(operation))
    };
    let parts = [("gateway", REGISTER), ("auth", HASH), ("user", "user.v1.Users"), ("user", "INSERT ")];
    let missing: Vec<_> = parts.iter().filter(|(service, operation)| !has(service, operation)).collect();
    Claim {
        what: format!("{REGISTER} is followed through gateway, auth and user to the database"),
        holds: missing.is_empty(),
        seen: if missing.is_empty() { "all are there".to_owned() } else { format!("missing: {missing:?}") },
    }
}

/// The mean, and the tail: around p95, or the slower half where that holds too few.
fn bands(run: &Summary) -> impl Iterator<Item = &'static str> {
    let tail = if find(run, "p95").is_some() { "p95" } else { "slower-half" };
    ["all", tail].into_iter()
}

fn hash_is_first(run: &Summary, band: &str) -> Claim {
    let what = format!("{HASH} of auth ranks first in {REGISTER} ({band})");
    let Some(found) = find(run, band) else {
        return Claim { what, holds: false, seen: "there is no such band".to_owned() };
    };
    let sum: f64 = found.operations.iter().map(|operation| operation.critical_ms).sum();
    let first = found.operations.iter().max_by(|a, b| a.critical_ms.total_cmp(&b.critical_ms));
    let is_hash = first.is_some_and(|first| first.service == "auth" && first.operation == HASH);
    let adds_up = (sum - found.mean_ms).abs() <= ROUNDING;
    Claim {
        what,
        holds: is_hash && adds_up && found.requests_in_band >= ENOUGH,
        seen: format!(
            "{} with {:.1} of {:.1} ms over {} requests; the rows sum to {sum:.1}",
            first.map_or("nothing", |first| first.operation.as_str()),
            first.map_or(0.0, |first| first.critical_ms),
            found.mean_ms,
            found.requests_in_band,
        ),
    }
}

fn lower(dear: &Summary, cheap: &Summary) -> Claim {
    let p95 = |run: &Summary| {
        run.steps.iter().find(|step| step.step == REGISTER).and_then(|step| step.latency_ms.p95)
    };
    let ratio = p95(dear).zip(p95(cheap)).map_or(0.0, |(dear, cheap)| dear / cheap);
    Claim {
        what: format!("p95 of {REGISTER} is at least {LOWER}× lower at cost 10"),
        holds: ratio >= LOWER,
        seen: format!("{ratio:.1}×"),
    }
}

fn find<'s>(run: &'s Summary, band: &str) -> Option<&'s Attribution> {
    run.attribution.iter().find(|one| one.step == REGISTER && one.band == band)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(p95: f64, hash: f64, requests: u64) -> Summary {
        let operations = serde_json::json!([
            {"service": "auth", "operation": "bcrypt.hash", "critical_ms": hash},
            {"service": "gateway", "operation": "POST /auth/register", "critical_ms": 10.0},
            {"service": "user", "operation": "user.v1.Users/Create", "critical_ms": 5.0},
            {"service": "user", "operation": "INSERT users", "critical_ms": 5.0},
        ]);
        let band = |band: &str| {
            serde_json::json!({
                "step": REGISTER, "band": band, "requests_in_band": requests, "mean_ms": 120.0, "operations": operations,
            })
        };
        let text = serde_json::json!({
            "schema": "loadtest.summary/1",
            "run": {"trace": {"requests_joined_share": 1.0}},
            "totals": {"requests": 1, "errors": 0, "requests_per_s": 1.0},
            "steps": [{"step": REGISTER, "latency_ms": {"p50": 1.0, "p95": p95}}],
            "attribution": [band("slower-half"), band("all")],
        });
        Summary::parse(&text.to_string()).unwrap()
    }

    fn failing(dear: &Summary, cheap: &Summary) -> Vec<String> {
        of(dear, cheap).into_iter().filter(|claim| !claim.holds).map(|claim| claim.what).collect()
    }

    #[test]
    fn a_run_as_it_should_be_shows_everything() {
        assert_eq!(failing(&run(300.0, 100.0, 30), &run(100.0, 100.0, 30)), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_so_is_told() {
        let good = run(100.0, 100.0, 30);
        assert_eq!(failing(&run(200.0, 100.0, 30), &good).len(), 1, "too little difference");
        assert_eq!(failing(&run(300.0, 100.0, 29), &good).len(), 2, "too few requests");
        assert_eq!(failing(&run(300.0, 99.0, 30), &good).len(), 2, "rows that do not sum to the mean");
        assert_eq!(failing(&run(300.0, 1.0, 30), &good).len(), 2, "another operation is first");
    }
}
