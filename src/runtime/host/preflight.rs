//! Before the load: whether this process may have as many connections as its users will want.

use crate::model::event::Warning;
use crate::sys::limits;

/// The part of a limit beyond which a little more than expected reaches it.
const TIGHT: f64 = 0.70;

/// What the users will want, at the least: a connection each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) users: u64,
    /// Local addresses that connections are made from.
    pub(super) sources: u64,
}

/// What there is. `None`: without a limit, or not known.
#[derive(Debug, Clone, Copy)]
struct Limits {
    descriptors: Option<u64>,
    /// Descriptors that are open already.
    open: u64,
    /// Local ports, for each source address and target.
    ports: Option<u64>,
}

/// Raises what may be raised, and says where it may not be enough.
pub(super) fn check(wanted: Wanted) -> Vec<Warning> {
    let limits = Limits {
        descriptors: limits::raise_open_files(),
        open: limits::open_files().unwrap_or_default(),
        ports: limits::local_ports(),
    };
    doubts(wanted, limits)
}

fn doubts(wanted: Wanted, limits: Limits) -> Vec<Warning> {
    [descriptors(wanted, limits), ports(wanted, limits)].into_iter().flatten().collect()
}

fn descriptors(wanted: Wanted, limits: Limits) -> Option<Warning> {
    let (limit, open, users) = (limits.descriptors?, limits.open, wanted.users);
    let advice = "raise its hard limit (`ulimit -Hn`), or use fewer virtual users";
    doubt(
        "preflight-descriptors",
        users + open,
        limit,
        &format!("{limit} file descriptors that this process may have (of which it has {open})"),
        advice,
        users,
    )
}

fn ports(wanted: Wanted, limits: Limits) -> Option<Warning> {
    let Wanted { users, sources } = wanted;
    let limit = limits.ports?.saturating_mul(sources);
    let of = if sources == 1 {
        "its source address".to_owned()
    } else {
        format!("its {sources} source addresses")
    };
    let advice = "use more source addresses (--source-ip), or widen net.ipv4.ip_local_port_range; a connection that \
                  is closed keeps its port for a minute";
    doubt("preflight-ports", users, limit, &format!("{limit} local ports of {of}"), advice, users)
}

/// Says it where `wanted` is most of `limit`, and more strongly where it is more.
fn doubt(code: &str, wanted: u64, limit: u64, what: &str, advice: &str, users: u64) -> Option<Warning> {
    let share = wanted as f64 / (limit as f64).max(1.0);
    let unit = if users == 1 { "user" } else { "users" };
    let message = if wanted > limit {
        format!(
            "up to {users} {unit} with a connection each want more than the {what}: connections will fail, and then the \
             measurement is invalid; {advice}."
        )
    } else if share > TIGHT {
        format!(
            "up to {users} {unit} with a connection each want {:.0}% of the {what}; {advice}.",
            share * 100.0
        )
    } else {
        return None;
    };
    Some(Warning::new(code, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(users: u64, sources: u64, limits: Limits) -> Vec<(String, String)> {
        doubts(Wanted { users, sources }, limits).into_iter().map(|it| (it.code, it.message)).collect()
    }

    const NONE: Limits = Limits { descriptors: None, open: 0, ports: None };

    #[test]
    fn descriptors_are_enough_or_tight_or_too_few_with_those_that_are_open() {
        let limits = Limits { descriptors: Some(1000), open: 20, ..NONE };
        assert_eq!(said(680, 1, limits), []);
        let [(code, tight)] = &said(681, 1, limits)[..] else { panic!() };
        assert_eq!(code, "preflight-descriptors");
        assert!(
            tight.starts_with("up to 681 users with a connection each want 70% of the 1000 file descriptors"),
            "{tight}"
        );
        let [(_, full)] = &said(980, 1, limits)[..] else { panic!() };
        assert!(full.contains("want 100% of"), "{full}");
        let [(_, beyond)] = &said(981, 1, limits)[..] else { panic!() };
        assert!(beyond.contains("connections will fail") && beyond.contains("ulimit -Hn"), "{beyond}");
    }

    #[test]
    fn ports_are_counted_for_each_source_address() {
        let limits = Limits { ports: Some(100), ..NONE };
        assert_eq!(said(70, 1, limits), []);
        assert_eq!(said(200, 3, limits), []);
        for (users, sources, words) in [
            (71, 1, "want 71% of the 100 local ports of its source address"),
            (211, 3, "want 70% of the 300 local ports of its 3 source addresses"),
            (301, 3, "want more than the 300 local ports of its 3 source addresses: connections will fail"),
        ] {
            let [(code, message)] = &said(users, sources, limits)[..] else { panic!("{users}") };
            assert_eq!(code, "preflight-ports");
            assert!(message.contains(words) && message.contains("--source-ip"), "{message}");
        }
    }

    #[test]
    fn what_is_not_limited_or_not_known_is_no_cause_for_doubt() {
        assert_eq!(said(1_000_000, 1, NONE), []);
        assert_eq!(said(0, 0, Limits { descriptors: Some(0), open: 0, ports: Some(0) }), []);
    }
}
