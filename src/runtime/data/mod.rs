//! Test data: rows of a file, loaded once and shared by all users, and which user gets which row.

mod read;
mod seats;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt as _;
use serde::de::DeserializeOwned;

use super::error::{Error, Result};
use super::host::panics;
use super::scenario::Vu;
use crate::sys;

pub(crate) use seats::{Seats, UsersOfData};

/// Rows of test data, shared by all users of a binary.
///
/// Made by [`csv()`], [`json`] or [`rows`], usually as a `static`: nothing is read before a run begins, and then
/// once. A relative path starts at the folder of the scenario's package.
///
/// A scenario that names the feeder with [`Scenario::data`](crate::Scenario::data) has it read and checked before any
/// load; a mistake in it is then exit code 2. Otherwise it is read when the first user asks for a row.
///
/// ```no_run
/// use loadtest::prelude::*;
///
/// #[derive(serde::Deserialize)]
/// struct Account {
///     email: String,
///     password: String,
/// }
///
/// static ACCOUNTS: Feeder<Account> = csv("data/accounts.csv").unique();
///
/// async fn login(vu: &Vu) -> Result {
///     let account = ACCOUNTS.next(vu)?;
///     vu.post("/login").basic_auth(&account.email, &account.password).send().await?;
///     Ok(())
/// }
///
/// fn main() -> loadtest::ExitCode {
///     loadtest::main([scenario("login", login).data(&ACCOUNTS).constant_vus(10, secs(30))])
/// }
/// ```
pub struct Feeder<T> {
    source: Source<T>,
    order: Order,
    /// How many rows were taken, in [`Order::Sequential`].
    taken: AtomicU64,
    rows: OnceLock<Result<Vec<T>, String>>,
}

enum Source<T> {
    File { path: &'static str, read: read::Read<T> },
    Made(fn() -> Result<Vec<T>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Sequential,
    Random,
    Unique,
}

impl<T> fmt::Debug for Feeder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rows may be passwords.
        f.debug_struct("Feeder")
            .field("source", &self.name())
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

/// Rows of a CSV file. Its first line names the columns, which are the fields of `T` (or the keys of a map).
///
/// ```
/// use std::collections::BTreeMap;
/// use loadtest::prelude::*;
///
/// static CITIES: Feeder<BTreeMap<String, String>> = csv("data/cities.csv");
/// ```
pub const fn csv<T: DeserializeOwned>(path: &'static str) -> Feeder<T> {
    Feeder::new(Source::File { path, read: read::csv })
}

/// Rows of a JSON file: an array of them, or one after the other, as in JSON Lines.
///
/// ```
/// use loadtest::prelude::*;
///
/// static SEARCHES: Feeder<String> = json("data/searches.json").random();
/// ```
pub const fn json<T: DeserializeOwned>(path: &'static str) -> Feeder<T> {
    Feeder::new(Source::File { path, read: read::json })
}

/// Rows that a function makes, once: from another kind of file, from a database, or of invented data.
///
/// ```
/// use loadtest::{Feeder, Result, rows};
///
/// fn numbers() -> Result<Vec<String>> {
///     Ok((1..=100).map(|n| format!("user-{n}@example.com")).collect())
/// }
/// static ADDRESSES: Feeder<String> = rows(numbers).unique();
/// ```
pub const fn rows<T>(make: fn() -> Result<Vec<T>>) -> Feeder<T> {
    Feeder::new(Source::Made(make))
}

impl<T> Feeder<T> {
    const fn new(source: Source<T>) -> Self {
        Self { source, order: Order::Sequential, taken: AtomicU64::new(0), rows: OnceLock::new() }
    }

    /// Row after row, over all users together; after the last comes the first again. This is the order unless another
    /// one is chosen.
    #[must_use]
    pub const fn sequential(mut self) -> Self {
        self.order = Order::Sequential;
        self
    }

    /// Any row, each as likely as any other. What a user draws follows from the run's seed and the user's number alone.
    #[must_use]
    pub const fn random(mut self) -> Self {
        self.order = Order::Random;
        self
    }

    /// Each user keeps one row, which no other user has: user 1 of the first scenario the first, and so on through
    /// the users of all scenarios that name the feeder with [`Scenario::data`](crate::Scenario::data), which each one that
    /// takes rows from it has to do. Fewer rows than users: exit code 2 before any load.
    #[must_use]
    pub const fn unique(mut self) -> Self {
        self.order = Order::Unique;
        self
    }

    fn name(&self) -> &'static str {
        match self.source {
            Source::File { path, .. } => path,
            Source::Made(_) => "the rows of a function",
        }
    }

    /// What tells this feeder from others: where it stands. It is shared by reference, and so never moves in a run.
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The user's next row.
    ///
    /// # Errors
    ///
    /// Where the data cannot be read, or the user is given no row (in a setup or teardown from a [`unique`](Self::unique)
    /// feeder, or where its scenario does not name such a feeder): the run then ends, with exit code 2.
    pub fn next(&self, vu: &Vu) -> Result<&T> {
        self.row(vu).map_err(|message| {
            vu.note_misconfiguration(&message);
            Error::from(message)
        })
    }

    /// All rows, in the order of the file; there is at least one.
    ///
    /// # Errors
    ///
    /// Where the data cannot be read: with the file, and the line and column of what is wrong.
    pub fn rows(&self) -> Result<&[T]> {
        Ok(self.loaded()?)
    }

    fn row(&self, vu: &Vu) -> Result<&T, String> {
        let rows = self.loaded()?;
        let at = match self.order {
            Order::Sequential => (self.taken.fetch_add(1, Ordering::Relaxed) % rows.len() as u64) as usize,
            Order::Random => vu.draw(rows.len()),
            Order::Unique => vu.seat(self.key()).map_err(|why| format!("{}: {why}", self.name()))?,
        };
        // As many seats were given as there are rows.
        rows.get(at).ok_or_else(|| format!("{}: has no row {}", self.name(), at + 1))
    }

    fn loaded(&self) -> Result<&[T], String> {
        self.rows.get_or_init(|| self.load()).as_deref().map_err(Clone::clone)
    }

    /// A panic of the author's own code is an error like any other.
    fn load(&self) -> Result<Vec<T>, String> {
        let reading = async {
            match self.source {
                Source::File { path, read } => read(path, &contents(path)?),
                Source::Made(make) => {
                    make().map_err(|error| format!("{} cannot be made: {}", self.name(), error.chain()))
                }
            }
        };
        let caught = panics::catch(AssertUnwindSafe(reading)).now_or_never();
        // Nothing in it waits, so that it is always there at once.
        let rows = caught.unwrap_or_else(|| Err("was not read".to_owned()));
        let rows = rows.map_err(|panic| format!("{}: {panic}", self.name()))??;
        if rows.is_empty() { Err(format!("{}: there are no rows", self.name())) } else { Ok(rows) }
    }
}

fn contents(path: &str) -> Result<Vec<u8>, String> {
    let full = sys::file::in_package(Path::new(path));
    sys::file::read(&full)
        .map_err(|error| format!("cannot read the data of `{path}`: {}: {error}", full.display()))
}

/// A feeder of whatever rows, as a scenario holds it.
pub(crate) trait Data: Send + Sync {
    fn name(&self) -> &'static str;
    fn key(&self) -> usize;
    fn is_unique(&self) -> bool;
    /// Reads it, unless that has been done; how many rows there are.
    fn count(&self) -> Result<usize, String>;
}

/// Whatever a feeder is shared by.
pub(crate) struct SharedBy<D>(pub(crate) D);

impl<T, D> Data for SharedBy<D>
where
    T: Send + Sync + 'static,
    D: Deref<Target = Feeder<T>> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn key(&self) -> usize {
        self.0.key()
    }

    fn is_unique(&self) -> bool {
        self.0.order == Order::Unique
    }

    fn count(&self) -> Result<usize, String> {
        Ok(self.0.loaded()?.len())
    }
}
