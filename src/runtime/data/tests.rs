//! Files as they are and as they should not be.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
    age: u8,
    town: Option<String>,
}

fn person(name: &str, age: u8, town: Option<&str>) -> Person {
    Person { name: name.to_owned(), age, town: town.map(str::to_owned) }
}

fn csv_rows<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    read::csv("people.csv", text.as_bytes())
}

fn json_rows<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    read::json("people.json", text.as_bytes())
}

#[test]
fn the_same_rows_are_read_from_csv_and_from_both_forms_of_json() {
    let want = vec![person("Ada, Countess", 36, Some("Lon\ndon")), person("Ümit", 9, None)];
    let table = "\u{feff}age, name ,town\r\n36,\"Ada, Countess\",\"Lon\ndon\"\r\n\r\n9,Ümit,\r\n";
    let array = r#"[{"name": "Ada, Countess", "age": 36, "town": "Lon\ndon"}, {"name": "Ümit", "age": 9}]"#;
    let lines = "\u{feff}{\"name\": \"Ada, Countess\", \"age\": 36, \"town\": \"Lon\\ndon\"}\n\n{\"name\": \"Ümit\", \"age\": 9}\n";
    assert_eq!(csv_rows(table).as_ref(), Ok(&want));
    assert_eq!(json_rows(array).as_ref(), Ok(&want));
    assert_eq!(json_rows(lines).as_ref(), Ok(&want));
    let maps: Vec<BTreeMap<String, String>> = csv_rows("a,b\n1,2\n").unwrap();
    assert_eq!(maps, [BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())])]);
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_place() {
    for (text, message) in [
        ("name,age\nAda,36\nBob,old\n", "people.csv:3: column `age`: invalid digit found in string"),
        ("name,age\n\"A\nda\",36\n\n\nBob,256\n", "people.csv:6: column `age`: number too large to fit"),
        ("name,years\nAda,36\n", "people.csv:2: missing field `age`; the columns are: name, years"),
        ("name,age\nAda,36,London\n", "people.csv:2: the row has 3 fields, but there are 2 columns"),
        ("name,age,name\nAda,36,Ada\n", "people.csv:1: two columns are called `name`"),
    ] {
        let error = csv_rows::<Person>(text).unwrap_err();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
    let error = read::csv::<Person>("people.csv", b"name,age\nA\xffda,36\n").unwrap_err();
    assert_eq!(error, "people.csv:2: column `name` is not UTF-8");
    for (text, message) in [
        (
            "[\n{\"name\": \"Ada\", \"age\": 36},\n{\"name\": \"Bob\", \"age\": \"old\"}\n]",
            "people.json:3:28: invalid type: string \"old\", expected u8",
        ),
        ("{\"name\": \"Ada\", \"age\": 36}\n{\"age\": 3}\n", "people.json:2:10: missing field `name`"),
        ("{\"name\": \"Ada\", ", "people.json:1:16: EOF while parsing a value"),
    ] {
        let error = json_rows::<Person>(text).unwrap_err();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
}

#[test]
fn data_that_is_not_there_is_an_error_with_its_name() {
    for (feeder, message) in [
        (csv::<Person>("no/such.csv"), "cannot read the data of `no/such.csv`: "),
        (rows(|| Ok(Vec::new())), "the rows of a function: there are no rows"),
        (rows(|| Err("no database".into())), "the rows of a function cannot be made: no database"),
        (rows(|| panic!("no luck")), "the rows of a function: panicked at src/runtime/data/tests.rs:"),
    ] {
        for _ in 0..2 {
            let error = feeder.rows().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
    let error = csv::<Person>("no/such.csv").rows().unwrap_err().to_string();
    let full = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("no/such.csv");
    assert!(error.contains(&full.display().to_string()), "{error}");
}

/// A feeder that reads nothing.
struct Fed(usize, usize, bool);

impl Data for Fed {
    fn name(&self) -> &'static str {
        "accounts.csv"
    }

    fn key(&self) -> usize {
        self.0
    }

    fn is_unique(&self) -> bool {
        self.2
    }

    fn count(&self) -> Result<usize, String> {
        Ok(self.1)
    }
}

fn scenario_of(users: u32, data: &[Box<dyn Data>]) -> UsersOfData<'_> {
    UsersOfData { scenario: if users == 2 { "buy" } else { "browse" }, users, data }
}

#[test]
fn users_of_all_scenarios_together_must_not_be_more_than_the_rows() {
    let data = |rows, unique| -> Vec<Box<dyn Data>> { vec![Box::new(Fed(7, rows, unique))] };
    let assign = |rows, unique| {
        let data = data(rows, unique);
        Seats::assign(&[scenario_of(3, &data), scenario_of(2, &data)]).map(drop)
    };
    assert_eq!(assign(5, true), Ok(()));
    assert_eq!(assign(1, false), Ok(()));
    assert_eq!(
        assign(4, true).unwrap_err(),
        "accounts.csv: 4 rows are too few for 5 users (3 of `browse`, 2 of `buy`), each of whom is to have its own; \
         add rows, or have fewer users"
    );
}

#[test]
fn who_has_no_row_is_told_why() {
    let data: Vec<Box<dyn Data>> = vec![Box::new(Fed(7, 3, true))];
    let seats = Seats::assign(&[scenario_of(3, &data), scenario_of(2, &[])]).unwrap();
    assert_eq!(seats.of(7, 0, 3), Ok(2));
    for (seat, why) in [
        (seats.of(7, 0, 0), "setup or teardown"),
        (seats.of(7, 0, 4), "user 4 has no row"),
        (seats.of(7, 1, 1), ".data("),
        (seats.of(8, 0, 1), ".data("),
    ] {
        assert!(seat.unwrap_err().contains(why), "{why}");
    }
}

proptest! {
    #[test]
    fn no_two_users_share_a_row(users in prop::collection::vec(1_u32..20, 1..6), spare in 0_usize..4) {
        let total: usize = users.iter().map(|users| *users as usize).sum();
        let data: Vec<Box<dyn Data>> = vec![Box::new(Fed(1, total + spare, true))];
        let scenarios: Vec<_> = users.iter().map(|users| scenario_of(*users, &data)).collect();
        let seats = Seats::assign(&scenarios).unwrap();
        let mut rows: Vec<usize> = users
            .iter()
            .enumerate()
            .flat_map(|(place, users)| (1..=u64::from(*users)).map(move |user| (place, user)))
            .map(|(place, user)| seats.of(1, place, user).unwrap())
            .collect();
        rows.sort_unstable();
        prop_assert_eq!(rows, (0..total).collect::<Vec<_>>());
    }

    #[test]
    fn rows_survive_being_written_and_read(
        people in prop::collection::vec((".*", any::<u8>(), prop::option::of(".+")), 1..20),
    ) {
        let people: Vec<Person> =
            people.iter().map(|(name, age, town)| person(name, *age, town.as_deref())).collect();
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        people.iter().for_each(|person| writer.serialize(person).unwrap());
        let table = writer.into_inner().unwrap();
        prop_assert_eq!(read::csv::<Person>("p", &table).unwrap(), people.clone());
        let lines: Vec<String> = people.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
        prop_assert_eq!(json_rows::<Person>(&lines.join("\n")).unwrap(), people.clone());
        prop_assert_eq!(json_rows::<Person>(&serde_json::to_string(&people).unwrap()).unwrap(), people);
    }

    #[test]
    fn any_file_is_rows_or_a_mistake_with_its_place(
        pieces in prop::collection::vec(
            prop_oneof![
                "name,age|[A-Z][a-z]{0,3},[0-9]{1,3}|\\{\"name\":\"A\",\"age\":[0-9]{1,3}\\}|[\\[\\]{},\"\n \r]".prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 1..3),
            ],
            0..12,
        ),
        head in any::<bool>(),
    ) {
        let bytes = [if head { &b"name,age\n"[..] } else { b"" }, &pieces.concat()].concat();
        let marked = [&b"\xef\xbb\xbf"[..], &bytes].concat();
        for read in [read::csv::<Person>, read::json::<Person>] {
            let rows = read("p", &bytes);
            // The mark that some editors set says nothing.
            if !bytes.starts_with(b"\xef\xbb\xbf") {
                prop_assert_eq!(&read("p", &marked), &rows);
            }
            let Err(error) = rows else { continue };
            let place = error.strip_prefix("p:").and_then(|rest| rest.split(':').next());
            let line = place.and_then(|line| line.parse::<usize>().ok());
            let lines = bytes.split(|byte| *byte == b'\n').count();
            prop_assert!(line.is_some_and(|line| line <= lines), "{} of {} lines", error, lines);
        }
    }

    #[test]
    fn a_table_without_quotes_is_its_lines_cut_at_commas(
        rows in prop::collection::vec(("[A-Za-z ]{1,8}", any::<u16>()), 1..20), end in "\n{1,2}|\r\n",
    ) {
        let table: String = rows.iter().map(|(name, age)| format!("{name},{age}{end}")).collect();
        let read: Vec<(String, u16)> = csv_rows(&format!("name,age{end}{table}")).unwrap();
        prop_assert_eq!(&read, &rows);
        let too_much = table.replacen(&end, &format!(",more{end}"), 1);
        let error = csv_rows::<(String, u16)>(&format!("name,age{end}{too_much}")).unwrap_err();
        prop_assert!(error.starts_with(&format!("people.csv:{}: ", end.matches('\n').count() + 1)), "{}", error);
    }
}
