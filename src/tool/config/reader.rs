//! Reads typed values out of a TOML document, and says file, line and column when one is not as it should be.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, nearest};
use super::source::{Source, Sourced};

/// One file, parsed. What it says outside and inside named profiles differs only in the source it is given.
#[derive(Debug)]
pub(super) struct Document<'a> {
    path: PathBuf,
    text: &'a str,
    table: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    pub(super) fn parse(path: &Path, text: &'a str) -> Result<Self, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| {
            let (line, column) = line_column(text, error.span().map_or(0, |span| span.start));
            ConfigError::Syntax { path: path.to_owned(), line, column, message: error.message().to_owned() }
        })?;
        Ok(Self { path: path.to_owned(), text, table })
    }

    pub(super) fn root(&self) -> Section<'_> {
        let place = Place { document: self, profile: None };
        Section { place, name: String::new(), table: self.table.get_ref(), asked: RefCell::default() }
    }
}

/// Line and column, both from 1, the column in characters.
fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    document: &'a Document<'a>,
    profile: Option<&'a str>,
}

impl Place<'_> {
    fn source(self, span: &Range<usize>) -> Source {
        let (line, _) = line_column(self.document.text, span.start);
        let path = self.document.path.clone();
        match self.profile {
            None => Source::File { path, line },
            Some(name) => Source::Profile { name: name.to_owned(), path, line },
        }
    }
}

/// A table whose keys are known. It remembers what was asked for, so that [`Section::finish`] can tell what was not.
#[derive(Debug)]
pub(super) struct Section<'a> {
    place: Place<'a>,
    name: String,
    table: &'a DeTable<'a>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    pub(super) fn get(&self, key: &'static str) -> Option<Field<'a>> {
        self.asked.borrow_mut().push(key);
        let (written, value) = self.table.get_key_value(key)?;
        Some(Field { place: self.place, name: join(&self.name, key), key: written.span(), value })
    }

    /// Refuses keys that were never asked for. The first in the file is reported.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        let asked = self.asked.into_inner();
        let unknown = self
            .table
            .keys()
            .filter(|key| !asked.contains(&key.get_ref().as_ref()))
            .min_by_key(|key| key.span().start);
        let Some(key) = unknown else { return Ok(()) };
        let (line, column) = line_column(self.place.document.text, key.span().start);
        Err(ConfigError::UnknownKey {
            path: self.place.document.path.clone(),
            line,
            column,
            nearest: nearest(key.get_ref(), asked).map(|known| join(&self.name, &known)),
            key: join(&self.name, key.get_ref()),
        })
    }
}

fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

/// A key and its value, of whatever type.
#[derive(Debug)]
pub(super) struct Field<'a> {
    place: Place<'a>,
    name: String,
    key: Range<usize>,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Field<'a> {
    pub(super) fn source(&self) -> Source {
        self.place.source(&self.key)
    }

    pub(super) fn invalid(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::Invalid { at: self.source(), key: self.name.clone(), message: message.into() }
    }

    fn wrong_type(&self, expected: &'static str) -> ConfigError {
        let (line, column) = line_column(self.place.document.text, self.value.span().start);
        ConfigError::WrongType {
            path: self.place.document.path.clone(),
            line,
            column,
            key: self.name.clone(),
            expected,
            found: match self.value.get_ref() {
                DeValue::String(_) => "a string",
                DeValue::Integer(_) => "an integer",
                DeValue::Float(_) => "a float",
                DeValue::Boolean(_) => "a boolean",
                DeValue::Datetime(_) => "a date",
                DeValue::Array(_) => "an array",
                DeValue::Table(_) => "a table",
            },
        }
    }

    /// The same field as part of the profile `name`.
    pub(super) fn of_profile(self, name: &'a str) -> Self {
        Self { place: Place { profile: Some(name), ..self.place }, ..self }
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    fn text(&self, expected: &'static str) -> Result<&'a str, ConfigError> {
        self.value.get_ref().as_str().ok_or_else(|| self.wrong_type(expected))
    }

    pub(super) fn string(&self) -> Result<Sourced<String>, ConfigError> {
        Ok(Sourced::new(self.text("a string")?.to_owned(), self.source()))
    }

    /// A string that `parse` reads.
    pub(super) fn parsed<T>(
        &self,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Sourced<T>, ConfigError> {
        let value = parse(self.text("a string")?).map_err(|message| self.invalid(message))?;
        Ok(Sourced::new(value, self.source()))
    }

    pub(super) fn boolean(&self) -> Result<Sourced<bool>, ConfigError> {
        let value = self.value.get_ref().as_bool().ok_or_else(|| self.wrong_type("true or false"))?;
        Ok(Sourced::new(value, self.source()))
    }

    pub(super) fn integer<T: TryFrom<u64>>(&self) -> Result<Sourced<T>, ConfigError> {
        let expected = "an integer";
        let integer = self.value.get_ref().as_integer().ok_or_else(|| self.wrong_type(expected))?;
        let value = u64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.invalid(format!("{} is out of range", integer.as_str())))?;
        Ok(Sourced::new(value, self.source()))
    }

    /// An array of strings, each read by `parse`.
    pub(super) fn list<T>(
        &self,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Sourced<Vec<T>>, ConfigError> {
        let expected = "an array of strings";
        let array = self.value.get_ref().as_array().ok_or_else(|| self.wrong_type(expected))?;
        let items = array
            .iter()
            .map(|item| {
                let item = Field { name: self.name.clone(), key: item.span(), value: item, ..*self };
                parse(item.text("an array of strings")?).map_err(|message| item.invalid(message))
            })
            .collect::<Result<_, _>>()?;
        Ok(Sourced::new(items, self.source()))
    }

    /// An array of strings and integers, each read by `parse`.
    pub(super) fn words<T>(
        &self,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Sourced<Vec<T>>, ConfigError> {
        let expected = "an array of strings and integers";
        let array = self.value.get_ref().as_array().ok_or_else(|| self.wrong_type(expected))?;
        let items = array
            .iter()
            .map(|item| {
                let item = Field { name: self.name.clone(), key: item.span(), value: item, ..*self };
                let read = match item.value.get_ref() {
                    DeValue::Integer(integer) => parse(integer.as_str()),
                    _ => parse(item.text(expected)?),
                };
                read.map_err(|message| item.invalid(message))
            })
            .collect::<Result<_, _>>()?;
        Ok(Sourced::new(items, self.source()))
    }

    pub(super) fn strings(&self) -> Result<Sourced<Vec<String>>, ConfigError> {
        self.list(|text| Ok(text.to_owned()))
    }

    /// A table with known keys.
    pub(super) fn section(self) -> Result<Section<'a>, ConfigError> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.wrong_type("a table"))?;
        Ok(Section { place: self.place, name: self.name, table, asked: RefCell::default() })
    }

    /// An array of tables with known keys: each with the place of its header.
    pub(super) fn sections(self) -> Result<Vec<(Source, Section<'a>)>, ConfigError> {
        let expected = "an array of tables";
        let array = self.value.get_ref().as_array().ok_or_else(|| self.wrong_type(expected))?;
        array
            .iter()
            .map(|value| {
                let item = Field { name: self.name.clone(), key: value.span(), value, ..self };
                Ok((item.source(), item.section()?))
            })
            .collect()
    }

    /// A table with free keys.
    pub(super) fn entries(self) -> Result<Vec<(&'a str, Field<'a>)>, ConfigError> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.wrong_type("a table"))?;
        Ok(table
            .iter()
            .map(|(key, value)| {
                let name = join(&self.name, key.get_ref());
                let field = Field { place: self.place, name, key: key.span(), value };
                (key.get_ref().as_ref(), field)
            })
            .collect())
    }
}
