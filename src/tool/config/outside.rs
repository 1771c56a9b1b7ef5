//! What the configuration takes from other files: `.env` files, and the files of secrets.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::dotenv;
use super::env::PREFIX;
use super::error::ConfigError;
use super::source::{Source, Sourced};
use super::value::{Origin, Value, look_up};
use super::{Config, Variables};
use crate::sys;

/// The file that is read unless the configuration names another one.
const DOTENV: &str = ".env";

/// What `.env` files say, by name, with the place of each.
pub(super) type Dotenv = BTreeMap<String, (String, Source)>;

/// Reads the workspace's `.env` and the package's over it, or the one file that the configuration names instead.
pub(super) fn read_dotenv(
    root: &Path,
    package_folder: Option<&Path>,
    config: &Config,
    variables: &Variables,
) -> Result<Dotenv, ConfigError> {
    let mut said = Dotenv::new();
    let package = package_folder.filter(|folder| *folder != root);
    let usual = || [Some(root), package].into_iter().flatten().map(|folder| folder.join(DOTENV)).collect();
    let named = config.env_file.as_ref().map(|path| vec![root.join(&path.value)]);
    let paths: Vec<PathBuf> = named.unwrap_or_else(usual);
    for full in paths {
        let path = full.strip_prefix(root).unwrap_or(&full).to_owned();
        match (sys::fs::read_text(&full), &config.env_file) {
            (Ok(Some(text)), _) => said.extend(read_one(&path, &text, variables)?),
            (Ok(None), None) => {}
            (Ok(None), Some(named)) => return Err(ConfigError::NoEnvFile { at: named.source.clone(), path }),
            (Err(source), _) => return Err(ConfigError::Read { path, source }),
        }
    }
    Ok(said)
}

pub(super) fn read_one(path: &Path, text: &str, variables: &Variables) -> Result<Dotenv, ConfigError> {
    let wrong = |line, message| ConfigError::Dotenv { path: path.to_owned(), line, message };
    let entries = dotenv::parse(text, variables).map_err(|(line, message)| {
        wrong(line, format!("{message} (`env-file` names another file, --no-env-file reads none)"))
    })?;
    let ours = entries.iter().find(|entry| entry.name.starts_with(PREFIX));
    if let Some(entry) = ours {
        let message = format!(
            "{} is a setting of cargo loadtest, which takes none from here; put it into loadtest.toml or the environment",
            entry.name
        );
        return Err(wrong(entry.line, message));
    }
    let sourced = entries.into_iter().map(|entry| {
        (entry.name, (entry.value, Source::EnvFile { path: path.to_owned(), line: entry.line }))
    });
    Ok(sourced.collect())
}

/// The content of a secret's file, without the line end that editors add.
pub(super) fn read_secret(root: &Path, path: &str) -> Result<String, String> {
    let text = match sys::fs::read_text(&root.join(path)) {
        Ok(Some(text)) => text,
        Ok(None) => return Err("which does not exist".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err("which is not UTF-8".to_owned());
        }
        Err(error) => return Err(format!("which cannot be read: {error}")),
    };
    let secret =
        text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if secret.is_empty() { Err("which is empty".to_owned()) } else { Ok(secret.to_owned()) }
}

impl Config {
    /// Gives every secret what is at its origin: a variable of the environment or else of `dotenv`, or a file; and hands
    /// what `dotenv` says and nothing else does to the scenarios.
    pub(super) fn take_in(
        &mut self,
        dotenv: &Dotenv,
        variables: &Variables,
        file: impl Fn(&str) -> Result<String, String>,
    ) {
        let look = |origin: &Origin| match origin {
            Origin::Variable(name) => variables
                .get(name)
                .or_else(|| dotenv.get(name).map(|(value, _)| value))
                .cloned()
                .ok_or_else(|| "which is not set".to_owned()),
            Origin::File(path) => file(path),
        };
        let targets = self.otlp_traces.iter_mut().chain(&mut self.otlp_metrics).map(|it| &mut it.headers);
        let services = self.services.iter_mut().map(|service| &mut service.env);
        for values in services.chain(targets).chain([&mut self.env, &mut self.secrets]) {
            look_up(values, &look);
        }
        for (name, (value, source)) in dotenv {
            // A scenario sees the environment of the tool.
            if !variables.contains_key(name) && !self.secrets.contains_key(name) {
                let value = || Sourced::new(Value::Dotenv(value.clone()), source.clone());
                self.env.entry(name.clone()).or_insert_with(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{ConfigFile, Flags, load, render_json, render_text, resolve};
    use super::*;

    const CANARY: &str = "c4n4ry";

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn resolved(text: &str, variables: &Variables, flags: &Flags) -> Result<Config, ConfigError> {
        let file = ConfigFile { path: "loadtest.toml".into(), text: text.to_owned() };
        resolve(&[file], variables, flags)
    }

    /// The configuration with what stands outside of it: variables, `.env`, and the content of the file `keys/api`.
    fn with_outside(text: &str, env: &[(&str, &str)], dotenv: &str, flags: &Flags) -> Config {
        let variables = variables(env);
        let mut config = resolved(text, &variables, flags).unwrap();
        let dotenv = read_one(Path::new(".env"), dotenv, &variables).unwrap();
        let key = |path: &str| {
            if path == "keys/api" { Ok(format!("{CANARY}-file")) } else { Err("which is empty".into()) }
        };
        config.take_in(&dotenv, &variables, key);
        config
    }

    #[test]
    fn a_dotenv_file_stands_below_everything_else() {
        let text = "env = { A = 'toml', B = 'toml' }\n[secrets]\nC = { env = 'S' }\nD = { env = 'E' }\n";
        let flags = Flags { env: vec![("A".into(), "flag".into())], ..Flags::default() };
        let dotenv = "A=0\nB=0\nC=0\nD=0\nE=of the file\nF=$E\nS=0\n";
        let config = with_outside(text, &[("S", "environment"), ("F", "set")], dotenv, &flags);
        let env = config.scenario_env().unwrap();
        // F is left to the environment, which the scenario sees.
        let want =
            [("A", "flag"), ("B", "toml"), ("C", "environment"), ("D", "of the file"), ("E", "of the file")];
        assert_eq!(env, variables(&want));
        assert_eq!(config.env["E"].source.to_string(), ".env:5");
    }

    #[test]
    fn a_setting_of_the_tool_in_a_dotenv_file_is_refused() {
        let error = read_one(Path::new("p/.env"), "A=1\nLOADTEST_VUS=3", &BTreeMap::new()).unwrap_err();
        assert!(
            error.to_string().starts_with("p/.env:2: LOADTEST_VUS is a setting of cargo loadtest"),
            "{error}"
        );
        let error = read_one(Path::new(".env"), "A=1\nnothing", &BTreeMap::new()).unwrap_err().to_string();
        assert!(
            error.starts_with(".env:2: not of the form NAME=VALUE (") && error.contains("--no-env-file"),
            "{error}"
        );
    }

    #[test]
    fn secrets_go_to_scenarios_and_services_and_braces_in_them_are_no_placeholders() {
        let text = "env = { PLAIN = '{x}' }\n[secrets]\nAPI = { file = 'keys/api' }\nBRACED = { env = 'BRACED' }\n\
                [[service]]\nname = 'a'\nbin = 'a'\nenv = { BRACED = { env = 'OTHER' }, URL = 'http://{port}' }\n\
                [[service]]\nname = 'b'\nbin = 'b'\n";
        let env = [("BRACED", "{port}"), ("OTHER", "}")];
        let config = with_outside(text, &env, "", &Flags::default());
        let api = &format!("{CANARY}-file");
        let scenario = config.scenario_env().unwrap();
        assert_eq!(scenario, variables(&[("API", api), ("BRACED", "{port}"), ("PLAIN", "{x}")]));
        let service = |at: usize| config.service_env(&config.services[at]).unwrap();
        assert_eq!(service(0), variables(&[("API", api), ("BRACED", "}}"), ("URL", "http://{port}")]));
        assert_eq!(service(1), variables(&[("API", api), ("BRACED", "{{port}}")]));
        assert!(config.check_secrets(true).is_ok());
    }

    #[test]
    fn a_secret_in_a_higher_layer_takes_the_place_of_a_plain_value() {
        let text = "env = { KEY = 'for everybody' }\n[profile.ci.secrets]\nKEY = { file = 'keys/api' }\n";
        let config =
            with_outside(text, &[], "", &Flags { profile: Some("ci".to_owned()), ..Flags::default() });
        assert_eq!(config.scenario_env().unwrap()["KEY"], format!("{CANARY}-file"));
        let error = resolved(
            "env = { KEY = 'a' }\n[secrets]\nKEY = { env = 'B' }\n",
            &Variables::new(),
            &Flags::default(),
        );
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "loadtest.toml:3: `secrets.KEY`: `env` has it, too; keep one of them");
    }

    #[test]
    fn a_secret_that_is_not_there_is_named_with_where_it_was_looked_for() {
        for (text, message) in [
            (
                "[secrets]\nKEY = { env = 'NOWHERE' }",
                "loadtest.toml:2: `secrets.KEY` is to be taken from the variable NOWHERE, which is not set",
            ),
            (
                "[secrets]\nKEY = { file = 'keys/none' }",
                "loadtest.toml:2: `secrets.KEY` is to be taken from the file keys/none, which is empty",
            ),
            (
                "[otlp]\nendpoint = 'http://x'\nheaders = { a = { file = 'keys/none' } }",
                "loadtest.toml:3: `otlp.headers.a` is to be taken from the file keys/none, which is empty",
            ),
            (
                "[[service]]\nname = 'a'\nbin = 'a'\nenv = { A = { env = 'NOWHERE' } }",
                "loadtest.toml:4: `service.a.env.A` is to be taken from the variable NOWHERE, which is not set",
            ),
        ] {
            let config = with_outside(text, &[], "", &Flags::default());
            assert_eq!(config.check_secrets(true).unwrap_err().to_string(), message);
            assert_eq!(config.check_secrets(false).is_ok(), text.contains("service"));
        }
    }

    #[test]
    fn what_comes_from_outside_is_never_shown() {
        let text =
            "env-file = 'x.env'\n[secrets]\nAPI = { file = 'keys/api' }\nNONE = { file = 'keys/none' }\n";
        let dotenv = format!(
            "DB_PASSWORD={CANARY}-1\nREGION={CANARY}-2\nDB_PWD=abc\nDATABASE_URL=postgres://u:{CANARY}-3@db/x\n"
        );
        let config = with_outside(text, &[], &dotenv, &Flags::default());
        insta::assert_snapshot!(render_text(&config), @r"
    env-file          x.env                      loadtest.toml:1
    env.DATABASE_URL  ***                        .env:4
    env.DB_PASSWORD   ***                        .env:1
    env.DB_PWD        ***                        .env:3
    env.REGION        ***                        .env:2
    secrets.API       *** (from keys/api)        loadtest.toml:3
    secrets.NONE      not read (from keys/none)  loadtest.toml:4
    trace             rate:500/s                 default
    keep-runs         50                         default
    ");
        for shown in [render_json(&config), format!("{config:?}")] {
            assert!(!shown.contains(CANARY), "{shown}");
        }
        let masked: Vec<String> =
            vec![format!("{CANARY}-file"), format!("{CANARY}-1"), format!("{CANARY}-3")];
        assert_eq!(config.secrets(), masked.iter().map(String::as_str).collect());
    }

    #[test]
    fn dotenv_files_and_files_of_secrets_are_read_from_the_workspace_and_its_package() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            sys::fs::write_whole(&path, bytes).unwrap();
        };
        let read = |flags: &Flags| load(root.path(), Some(&root.path().join("p")), flags);
        let flags = Flags { profile: Some("default".to_owned()), ..Flags::default() };
        write("loadtest.toml", b"[secrets]\nLOADTEST_TEST_KEY = { file = 'keys/api' }\n");
        write("keys/api", b"of the file\r\n");
        write(".env", b"__LOADTEST_A=0\n__LOADTEST_B=0\n");
        write("p/.env", b"__LOADTEST_B=1\n");
        let config = read(&flags).unwrap();
        let want = [("LOADTEST_TEST_KEY", "of the file"), ("__LOADTEST_A", "0"), ("__LOADTEST_B", "1")];
        assert_eq!(config.scenario_env().unwrap(), variables(&want));
        assert_eq!(config.env["__LOADTEST_B"].source.to_string(), "p/.env:1");
        let none = read(&Flags { no_env_file: true, ..flags.clone() }).unwrap();
        assert_eq!(none.scenario_env().unwrap().len(), 1);

        for (bytes, why) in [(&b"\n"[..], "which is empty"), (b"\xff", "which is not UTF-8")] {
            write("keys/api", bytes);
            let error = read(&flags).unwrap().check_secrets(false).unwrap_err().to_string();
            assert!(error.ends_with(why), "{error}");
        }
        write("loadtest.toml", b"env-file = 'env/ci'\n");
        assert_eq!(
            read(&flags).unwrap_err().to_string(),
            "loadtest.toml:1: `env-file`: there is no file env/ci"
        );
        write("env/ci", b"__LOADTEST_A=ci");
        let config = read(&flags).unwrap();
        assert_eq!(config.scenario_env().unwrap(), variables(&[("__LOADTEST_A", "ci")]));
    }
}
