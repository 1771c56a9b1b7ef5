//! Which rows of unique feeders belong to the users of which scenario.

use std::collections::BTreeMap;

use super::Data;

/// For each unique feeder, by its key, the first row and the number of users of each scenario that names it.
#[derive(Debug, Default)]
pub(crate) struct Seats(BTreeMap<usize, BTreeMap<usize, (u64, u64)>>);

/// A scenario that names feeders, and the most users that it will have.
pub(crate) struct UsersOfData<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) users: u32,
    pub(crate) data: &'a [Box<dyn Data>],
}

impl Seats {
    /// Reads all feeders, and gives each user its row. Scenarios are known by their place in `scenarios`.
    pub(crate) fn assign(scenarios: &[UsersOfData<'_>]) -> Result<Self, String> {
        let mut seats = Self::default();
        let mut unique = BTreeMap::new();
        for (place, scenario) in scenarios.iter().enumerate() {
            for data in scenario.data {
                let rows = data.count().map_err(|why| format!("scenario `{}`: {why}", scenario.scenario))?;
                if data.is_unique() {
                    unique.insert(data.key(), (data.name(), rows as u64));
                    let given = seats.0.entry(data.key()).or_default();
                    let first = given.values().map(|(_, users)| users).sum();
                    given.entry(place).or_insert((first, u64::from(scenario.users)));
                }
            }
        }
        for (key, (name, rows)) in unique {
            let given = &seats.0[&key];
            let users: u64 = given.values().map(|(_, users)| users).sum();
            if users > rows {
                let of = |(place, (_, users)): (&usize, &(u64, u64))| {
                    format!("{users} of `{}`", scenarios[*place].scenario)
                };
                let users_of: Vec<String> = given.iter().map(of).collect();
                return Err(format!(
                    "{name}: {rows} rows are too few for {users} users ({}), each of whom is to have its own; add rows, \
                     or have fewer users",
                    users_of.join(", ")
                ));
            }
        }
        Ok(seats)
    }

    /// The row of a user, from 0. Users have numbers from 1.
    pub(crate) fn of(&self, feeder: usize, scenario: usize, user: u64) -> Result<usize, String> {
        let given = self.0.get(&feeder).and_then(|given| given.get(&scenario));
        let (first, users) =
            given.ok_or("a scenario that takes unique rows has to name the feeder with `.data(&…)`")?;
        match user.checked_sub(1) {
            None => Err("unique rows belong to users, and a setup or teardown has none".to_owned()),
            Some(before) if before < *users => Ok((first + before) as usize),
            Some(_) => Err(format!("user {user} has no row: there were to be at most {users} users")),
        }
    }
}
