//! Rows of files, as the users of whole runs get them.

use std::sync::Mutex;

use super::*;

/// The feeder's file, in a folder that lives until the end of the test.
fn file(name: &str, text: &str) -> (tempfile::TempDir, &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    crate::sys::fs::write_whole(&path, text.as_bytes()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path.leak())
}

fn numbers(rows: u32) -> (tempfile::TempDir, &'static str) {
    let rows: Vec<String> = (1..=rows).map(|row| row.to_string()).collect();
    file("numbers.csv", &format!("n\n{}\n", rows.join("\n")))
}

#[derive(serde::Deserialize)]
struct Number {
    n: u32,
}

/// What users took: (scenario, user, row).
type Taken = Arc<Mutex<Vec<(&'static str, u64, u32)>>>;

fn taking(name: &'static str, feeder: &Arc<Feeder<Number>>, taken: &Taken) -> Scenario {
    let (of, taken) = (feeder.clone(), taken.clone());
    scenario(name, async move |vu: &Vu| -> Result {
        let row = of.next(vu)?;
        taken.lock().unwrap().push((name, vu.id(), row.n));
        Ok(())
    })
}

fn run_of(scenarios: Vec<Scenario>) -> Outcome {
    let plan = plan(None, &scenarios);
    run_with(scenarios, plan, &StopFlag::default())
}

/// Each row with how often it was taken.
fn counts(taken: &Taken) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    for (.., row) in taken.lock().unwrap().iter() {
        *counts.entry(*row).or_default() += 1;
    }
    counts
}

#[test]
fn rows_in_sequence_go_round_over_all_users() {
    let (_folder, path) = numbers(7);
    let (feeder, taken) = (Arc::new(csv(path)), Taken::default());
    let outcome =
        run_of(vec![taking("s", &feeder, &taken).data(feeder.clone()).shared_iterations(5, 7 * 11)]);
    assert_eq!(outcome.load().failed_iterations, 0);
    assert_eq!(counts(&taken), (1..=7).map(|row| (row, 11)).collect());
}

#[test]
fn rows_by_chance_are_the_same_in_each_run_with_the_same_seed() {
    let (_folder, path) = numbers(50);
    let draws = || {
        let (feeder, taken) = (Arc::new(csv(path).random()), Taken::default());
        run_of(vec![
            taking("a", &feeder, &taken).iterations_per_vu(3, 20),
            taking("b", &feeder, &taken).iterations_per_vu(3, 20),
        ]);
        let mut by_user: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for (scenario, user, row) in taken.lock().unwrap().iter() {
            by_user.entry((*scenario, *user)).or_default().push(*row);
        }
        by_user
    };
    let first = draws();
    assert_eq!(first, draws());
    let distinct: BTreeSet<_> = first.values().collect();
    assert_eq!(distinct.len(), 6, "each user draws for itself: {first:?}");
}

#[test]
fn every_user_of_every_scenario_keeps_a_row_of_its_own() {
    let (_folder, path) = numbers(5);
    let (feeder, taken) = (Arc::new(csv(path).unique()), Taken::default());
    let of = |name, users| taking(name, &feeder, &taken).data(feeder.clone()).iterations_per_vu(users, 4);
    let scenarios = vec![of("a", 3), of("b", 2)];
    let mut plan = plan(None, &scenarios);
    // The user of the reference phase is the first.
    plan.reference = Some(ReferencePlan { iterations: 1, ..ReferencePlan::default() });
    run_with(scenarios, plan, &StopFlag::default());
    let pairs: BTreeSet<_> = taken.lock().unwrap().iter().copied().collect();
    let rows = [("a", 1, 1), ("a", 2, 2), ("a", 3, 3), ("b", 1, 4), ("b", 2, 5)];
    assert_eq!(pairs, rows.into());
}

#[test]
fn a_mistake_in_the_data_is_one_in_the_configuration_and_nothing_runs() {
    let (_folder, few) = numbers(2);
    let (_other, broken) = file("broken.csv", "n\n1\nx\n");
    for (feeder, message) in [
        (csv(few).unique(), "2 rows are too few for 3 users (3 of `s`)"),
        (csv(broken), "broken.csv:3: column `n`: invalid digit"),
        (json(broken), ": expected ident"),
    ] {
        let (feeder, taken) = (Arc::new(feeder), Taken::default());
        let named = taking("s", &feeder, &taken).data(feeder.clone()).constant_vus(3, secs(60));
        let outcome = run_of(vec![named]);
        let failure = outcome.failure();
        assert_eq!(failure.kind, FailureKind::Configuration);
        assert!(failure.message.contains(message), "{}", failure.message);
        assert_eq!((outcome.phases, taken.lock().unwrap().len()), (vec![], 0));
    }
}

#[test]
fn a_mistake_that_is_found_by_a_user_ends_the_run() {
    let (_folder, path) = numbers(2);
    for (feeder, message) in
        [(csv(path).unique(), "has to name the feeder with `.data("), (csv("no/such.csv"), "no/such.csv")]
    {
        let (feeder, taken) = (Arc::new(feeder), Taken::default());
        let outcome = run_of(vec![taking("s", &feeder, &taken).constant_vus(1, secs(60))]);
        let failure = outcome.failure();
        assert_eq!(failure.kind, FailureKind::Configuration);
        assert!(failure.message.contains(message), "{}", failure.message);
    }
}
