//! Memory per user.

use serde::Serialize;

use super::{Spread, grouped, judged, shown, table};

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

/// What a user of this generator shall not exceed, in KiB.
const TARGET_KIB: f64 = 32.0;

/// One run of one contestant with so many users.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Sample {
    /// The most resident bytes of the generator, with the tool around it.
    pub(in crate::bench) peak: u64,
    /// The most connections that the server had open at once.
    pub(in crate::bench) connections: u64,
}

/// One contestant's rounds: each its sample with one user, and then one for each number of users.
pub(in crate::bench) type Rounds = Vec<(Sample, Vec<Sample>)>;

#[derive(Debug, Serialize)]
pub(in crate::bench) struct Row {
    name: &'static str,
    one_user_mib: Spread,
    with_users: Vec<WithUsers>,
}

#[derive(Debug, Serialize)]
struct WithUsers {
    users: u32,
    mib: Spread,
    kib_a_user: Spread,
    /// The fewest that any run had open at once.
    connections: u64,
}

pub(in crate::bench) fn rows(users: &[u32], rounds: &[(&'static str, Rounds)]) -> Vec<Row> {
    let row = |(name, rounds): &(&'static str, Rounds)| {
        let with_users = users.iter().enumerate().map(|(at, &users)| {
            let pairs = || rounds.iter().filter_map(move |(one, many)| Some((*one, *many.get(at)?)));
            WithUsers {
                users,
                mib: Spread::of(pairs().map(|(_, many)| many.peak as f64 / MIB)),
                kib_a_user: Spread::of(pairs().map(|(one, many)| kib_a_user(one.peak, many.peak, users))),
                connections: pairs().map(|(_, many)| many.connections).min().unwrap_or_default(),
            }
        });
        Row {
            name,
            one_user_mib: Spread::of(rounds.iter().map(|(one, _)| one.peak as f64 / MIB)),
            with_users: with_users.collect(),
        }
    };
    rounds.iter().map(row).collect()
}

/// What each user beyond the first takes; below zero where the one user's run happened to take more.
fn kib_a_user(one: u64, many: u64, users: u32) -> f64 {
    (many as f64 - one as f64) / KIB / f64::from(users.saturating_sub(1).max(1))
}

pub(in crate::bench) fn markdown(rows: &[Row]) -> String {
    let mut head = vec![String::new(), "MiB with 1 user".to_owned()];
    for with in rows.first().map_or(&[][..], |row| &row.with_users) {
        let users = grouped(with.users);
        head.extend([format!("MiB with {users}"), format!("KiB a user with {users}")]);
        head.push("connections".to_owned());
    }
    head.extend(["target".to_owned(), "met".to_owned()]);
    let cells = |row: &Row| {
        let mut cells = vec![shown(row.name), format!("{:.1}", row.one_user_mib.median)];
        for with in &row.with_users {
            cells.extend([format!("{:.1}", with.mib.median), format!("{:.1}", with.kib_a_user)]);
            cells.push(with.connections.to_string());
        }
        let worst = row.with_users.iter().map(|with| with.kib_a_user.median).fold(f64::NAN, f64::max);
        let ours = row.name.starts_with("loadtest");
        cells.extend(judged(ours.then(|| (TARGET_KIB, format!("≤ {TARGET_KIB:.0} KiB"))), worst));
        cells
    };
    table(&head, &rows.iter().map(cells).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{Sample, markdown, rows};

    #[test]
    fn a_user_is_what_each_beyond_the_first_adds_within_a_round() {
        let sample = |mib: u64, connections| Sample { peak: mib << 20, connections };
        let rounds = [
            (
                "loadtest",
                vec![(sample(10, 1), vec![sample(12, 1025)]), (sample(20, 1), vec![sample(54, 1025)])],
            ),
            ("wrk", vec![(sample(4, 1), vec![sample(4, 1000)])]),
        ];
        // 2 MiB over 1024 users are 2 KiB each, 34 MiB are 34.
        let expected = "\
| | MiB with 1 user | MiB with 1,025 | KiB a user with 1,025 | connections | target | met |
|---|---|---|---|---|---|---|
| `loadtest` (the default: 500 traced iterations a second) | 15.0 | 33.0 | 18.0 (2.0 to 34.0) | 1025 | ≤ 32 KiB | yes |
| `wrk` | 4.0 | 4.0 | 0.0 | 1000 | – | – |
";
        assert_eq!(markdown(&rows(&[1025], &rounds)), expected);
    }

    #[test]
    fn the_number_of_users_that_takes_the_most_decides_whether_the_target_is_met() {
        let sample = |kib: u64| Sample { peak: kib << 10, connections: 11 };
        let rounds = [("loadtest", vec![(sample(0), vec![sample(330), sample(100)])])];
        assert!(markdown(&rows(&[11, 11], &rounds)).contains("| no |"));
    }
}
