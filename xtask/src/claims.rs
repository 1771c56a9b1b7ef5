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
/// The share of traced requests in which a span's parent may be missing.
const ORPHANS: f64 = 0.01;
/// Spans of each link of the chain in a request, on average: with fewer, some requests lack it.
const CALLS: f64 = 0.99;
/// The threshold of the scenario that cost 12 is too much for.
const THRESHOLD: (&str, &str) = ("http_req_duration", "p(95)<600ms");
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
    let mut claims = vec![joined(dear), no_orphans(dear), chain(dear)];
    claims.extend(bands(dear).map(|band| hash_is_first(dear, band)));
    claims.extend([too_slow(dear), lower(dear, cheap)]);
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

fn no_orphans(run: &Summary) -> Claim {
    let trace = &run.run.trace;
    let orphans = trace.not_joined.get("orphan-span").copied().unwrap_or(0);
    Claim {
        what: format!("a span's parent is missing in at most {:.0}% of the traced requests", ORPHANS * 100.0),
        holds: orphans as f64 <= ORPHANS * trace.requests_traced as f64,
        seen: format!("{orphans} of {}", trace.requests_traced),
    }
}

/// Request → gateway → auth → hash, and on to the user service and its database, in every single request.
fn chain(run: &Summary) -> Claim {
    let operations = find(run, "all").map_or(&[][..], |all| &all.operations);
    let calls = |(service, kind, operation): (&str, Option<&str>, &str)| -> f64 {
        let of_link = operations.iter().filter(|seen| {
            seen.service == service
                && kind.is_none_or(|kind| seen.kind == kind)
                && seen.operation.starts_with(operation)
        });
        of_link.map(|seen| seen.calls).sum()
    };
    let links = [
        ("gateway", Some("server"), REGISTER),
        ("auth", Some("server"), ""),
        ("auth", None, HASH),
        ("user", Some("server"), "user.v1.Users/"),
        ("user", None, "INSERT "),
    ];
    let seen = links.map(|link| (format!("{} {}", link.0, link.2), calls(link)));
    Claim {
        what: format!("every {REGISTER} is followed through gateway, auth and user to the database"),
        holds: seen.iter().all(|(_, calls)| *calls >= CALLS),
        seen: seen.map(|(link, calls)| format!("{} {calls:.2}×", link.trim())).join(", "),
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

fn too_slow(dear: &Summary) -> Claim {
    let (metric, expression) = THRESHOLD;
    let found = dear.thresholds.iter().find(|one| one.metric == metric && one.expression == expression);
    Claim {
        what: format!("{metric} {expression} fails at cost 12"),
        holds: found.is_some_and(|threshold| !threshold.passed),
        seen: found
            .map_or_else(|| "there is no such threshold".to_owned(), |threshold| threshold.text.clone()),
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
    use serde_json::{Value, json};

    use super::*;

    fn run(p95: f64, hash: f64, requests: u64) -> Value {
        let operation = |service: &str, kind: &str, operation: &str, critical_ms: f64| {
            json!({
                "service": service, "kind": kind, "operation": operation, "critical_ms": critical_ms, "calls": 1.0,
            })
        };
        let operations = [
            operation("auth", "internal", "bcrypt.hash", hash),
            operation("auth", "server", "auth.v1.Auth/Register", 4.0),
            operation("gateway", "server", "POST /auth/register", 6.0),
            operation("user", "server", "user.v1.Users/Create", 5.0),
            operation("user", "client", "INSERT users", 5.0),
        ];
        let band = |band: &str| {
            json!({
                "step": REGISTER, "band": band, "requests_in_band": requests, "mean_ms": 120.0, "operations": operations,
            })
        };
        json!({
            "schema": "loadtest.summary/1",
            "run": {"trace": {
                "requests_traced": 200, "requests_joined_share": 1.0, "not_joined": {"orphan-span": 2},
            }},
            "totals": {"requests": 1, "errors": 0, "requests_per_s": 1.0},
            "steps": [{"step": REGISTER, "latency_ms": {"p50": 1.0, "p95": p95}}],
            "thresholds": [{
                "metric": "http_req_duration", "expression": "p(95)<600ms", "passed": false, "text": "p(95)=1204.8ms",
            }],
            "attribution": [band("slower-half"), band("all")],
        })
    }

    fn failing(dear: &Value, cheap: &Value) -> Vec<String> {
        let [dear, cheap] = [dear, cheap].map(|run| Summary::parse(&run.to_string()).unwrap());
        of(&dear, &cheap).into_iter().filter(|claim| !claim.holds).map(|claim| claim.what).collect()
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

    #[test]
    fn each_part_of_the_trace_and_the_threshold_counts() {
        let calls = |row: usize| format!("/attribution/1/operations/{row}/calls");
        let mut cases: Vec<(String, Value, &str)> =
            (0..5).map(|row| (calls(row), json!(0.98), "is followed through")).collect();
        cases.extend([
            ("/attribution/1/operations/2/kind".to_owned(), json!("client"), "is followed through"),
            ("/run/trace/not_joined/orphan-span".to_owned(), json!(3), "parent is missing"),
            ("/run/trace/requests_joined_share".to_owned(), json!(0.98), "are joined"),
            ("/thresholds/0/passed".to_owned(), json!(true), "fails at cost 12"),
            ("/thresholds/0/expression".to_owned(), json!("p(95)<1s"), "fails at cost 12"),
        ]);
        for (field, value, claim) in cases {
            let mut dear = run(300.0, 100.0, 30);
            *dear.pointer_mut(&field).unwrap() = value;
            let told = failing(&dear, &run(100.0, 100.0, 30));
            assert!(told.len() == 1 && told[0].contains(claim), "{field}: {told:?}");
        }
    }
}
