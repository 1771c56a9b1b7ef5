//! The configuration as a whole: layers, sources, messages.

use std::time::Duration;

use super::*;

fn file(path: &str, text: &str) -> ConfigFile {
    ConfigFile { path: path.into(), text: text.to_owned() }
}

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn resolved(text: &str) -> Result<Config, ConfigError> {
    resolve(&[file("loadtest.toml", text)], &BTreeMap::new(), &Flags::default())
}

fn with_profile(name: &str) -> Flags {
    Flags { profile: Some(name.to_owned()), ..Flags::default() }
}

#[test]
fn each_layer_wins_over_the_ones_before_it() {
    let workspace = "base-url = 'http://0'\n[profile.default]\nbase-url = 'http://1'\n\
                     [profile.ci]\nbase-url = 'http://4'\n";
    let package = "base-url = 'http://2'\n[profile.default]\nbase-url = 'http://3'\n\
                   [profile.ci]\nbase-url = 'http://5'\n";
    let top = Flags { base_url: Some("http://7".to_owned()), ..with_profile("ci") };
    let env = [("LOADTEST_BASE_URL", "http://6")];
    // What is there: workspace file, package file, environment, flags; what is effective, and from where.
    let none: &[(&str, &str)] = &[];
    let cases = [
        (&["base-url = 'http://0'"][..], none, Flags::default(), "http://0", "loadtest.toml:1"),
        (&[workspace], none, Flags::default(), "http://1", "loadtest.toml:3"),
        (&[workspace, package], none, Flags::default(), "http://3", "p/loadtest.toml:3"),
        (&[workspace, package], none, with_profile("ci"), "http://5", "p/loadtest.toml:5 (profile ci)"),
        (&[workspace, package], &env, with_profile("ci"), "http://6", "LOADTEST_BASE_URL"),
        (&[workspace, package], &env, top, "http://7", "--base-url"),
    ];
    for (texts, env, flags, value, source) in cases {
        let files: Vec<_> = ["loadtest.toml", "p/loadtest.toml"]
            .into_iter()
            .zip(texts)
            .map(|(path, text)| file(path, text))
            .collect();
        let base_url = resolve(&files, &variables(env), &flags).unwrap().base_url.unwrap();
        assert_eq!((base_url.value.as_str(), base_url.source.to_string().as_str()), (value, source));
    }
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_place() {
    for (text, message) in [
        ("bse-url = 'x'", "loadtest.toml:1:1: unknown key `bse-url`; did you mean `base-url`?"),
        ("\n  zzzzzzzzz = 1", "loadtest.toml:2:3: unknown key `zzzzzzzzz`"),
        (
            "[otlp]\nendpont = 'x'",
            "loadtest.toml:2:1: unknown key `otlp.endpont`; did you mean `otlp.endpoint`?",
        ),
        (
            "[profile.ci.scenario.auth]\nvsu = 1",
            "loadtest.toml:2:1: unknown key `profile.ci.scenario.auth.vsu`; did you mean `profile.ci.scenario.auth.vus`?",
        ),
        ("base-url = 1", "loadtest.toml:1:12: `base-url` must be a string, but it is an integer"),
        ("keep-runs = 'all'", "loadtest.toml:1:13: `keep-runs` must be an integer, but it is a string"),
        ("service = 1", "loadtest.toml:1:11: `service` must be an array of tables, but it is an integer"),
        (
            "[[service]]\nname='a'\nargs=['x', 1]",
            "loadtest.toml:3:12: `service.args` must be an array of strings, but it is an integer",
        ),
        (
            "max-rate = '9'",
            "loadtest.toml:1: `max-rate`: `9` is no rate; write N/s, N/m or N/DURATION, such as 100/s or 1/10s",
        ),
        ("keep-runs = -1", "loadtest.toml:1: `keep-runs`: -1 is out of range"),
        ("trace = 'on'", "loadtest.toml:1: `trace`: `on` is no trace policy"),
        (
            "[profile.ci.scenario.a]\nduration = '10'",
            "loadtest.toml:2 (profile ci): `profile.ci.scenario.a.duration`: `10` is not a duration",
        ),
        (
            "[profile.ci.scenario.a]\nstages = ['10s:2', '3']",
            "loadtest.toml:2 (profile ci): `profile.ci.scenario.a.stages`: `3` is no stage",
        ),
        ("[profile.ci.scenario.a]\nvus = 0", "loadtest.toml:2 (profile ci): `vus`: the number of users is 0"),
        ("base-url = ", "loadtest.toml:1:12: "),
        (
            "[scenario.auth]\nvus = 1",
            "loadtest.toml:1: `scenario`: a scenario's own code wins over this; put it into a named profile",
        ),
        ("[profile.default.reference]\niterations = 1", "a scenario's own code wins over this"),
        (
            "[env]\nKEY = { }",
            "loadtest.toml:2: `env.KEY`: a secret is written { env = \"VARIABLE\" } or { file = \"PATH\" }",
        ),
        ("[env]\nKEY = { env = 'X', file = 'x' }", "loadtest.toml:2: `env.KEY`: a secret is written"),
        ("[env]\nKEY = { env = 'X', fil = 'x' }", "loadtest.toml:2:20: unknown key `env.KEY.fil`"),
        ("[secrets]\nKEY = 'x'", "loadtest.toml:2: `secrets.KEY`: what stands here is no secret any more"),
        ("[env]\n'A=B' = 'x'", "loadtest.toml:2: `env.A=B`: this cannot be a name"),
        (
            "[profile.ci.scenario.a]\nvus = 1\nstages = ['1s:1']",
            "stages (loadtest.toml:3 (profile ci)) and vus (loadtest.toml:2 (profile ci)) say different loads",
        ),
    ] {
        let error = resolved(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}\n{error}\n{message}");
    }
}

#[test]
fn a_service_that_cannot_be_started_is_named_with_its_place() {
    for (service, message) in [
        ("bin = 'a'", "service `?`: has no `name`"),
        ("name = 'a b'\nbin = 'a'", "`a b` is no name for a service"),
        ("name = 'a'", "loadtest.toml:1: service `a`: has neither `bin` nor `command`"),
        ("name = 'a'\nbin = 'a'\ncommand = ['a']", "service `a`: has both `bin` and `command`"),
        ("name = 'a'\ncommand = []", "service `a`: has an empty `command`"),
        ("name = 'a'\ncommand = ['a']\nfeatures = ['x']", "service `a`: has `package` or `features`"),
        ("name = 'a'\nbin = 'a'\nready = { timeout = '1s' }", "nothing to wait for"),
        ("name = 'a'\nbin = 'a'\nready = { tcp = 'x', log = 'y' }", "only one of http, tcp and log"),
        (
            "name = 'a'\nbin = 'a'\n[[service]]\nname = 'a'\nbin = 'b'",
            "loadtest.toml:4: service `a`: is there already, at loadtest.toml:1",
        ),
    ] {
        let error = resolved(&format!("[[service]]\n{service}")).unwrap_err().to_string();
        assert!(error.contains(message), "{service}\n{error}");
    }
}

#[test]
fn services_merge_by_name_and_keep_their_order() {
    let workspace = "[[service]]\nname = 'db'\ncommand = ['db']\nenv = { A = '1', B = '1' }\n\
                     [[service]]\nname = 'api'\nbin = 'api'\nready = { http = 'http://x', timeout = '5s' }\n\
                     [[profile.ci.service]]\nname = 'api'\nready = { timeout = '60s' }\n";
    let package = "[[service]]\nname = 'web'\nbin = 'web'\n[[service]]\nname = 'db'\nbin = 'fake-db'\nenv = { B = '2' }\n";
    let files = [file("loadtest.toml", workspace), file("p/loadtest.toml", package)];
    let config = resolve(&files, &BTreeMap::new(), &with_profile("ci")).unwrap();
    let names: Vec<_> = config.services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["db", "api", "web"]);

    let [db, api, web] = &config.services[..] else { panic!() };
    assert!(matches!(&db.program, Program::Bin { bin, .. } if bin.value == "fake-db"), "{db:?}");
    assert_eq!(reveal("", &db.env).unwrap(), variables(&[("A", "1"), ("B", "2")]));
    assert_eq!(api.probe.as_ref().unwrap().value, Probe::Http("http://x".to_owned()));
    assert_eq!(api.ready_timeout.value, Duration::from_secs(60));
    assert_eq!(api.ready_timeout.source.to_string(), "loadtest.toml:11 (profile ci)");
    assert_eq!(web.ready_timeout.source, Source::Default);
}

#[test]
fn an_unknown_profile_is_refused_with_the_known_ones() {
    let text = "[profile.ci]\n[profile.nightly]\n";
    let error = resolve(&[file("loadtest.toml", text)], &BTreeMap::new(), &with_profile("cii")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown profile `cii` (from --profile); did you mean `ci`?; there is: ci, default, nightly"
    );
    let env = variables(&[("LOADTEST_PROFILE", "x")]);
    let error = resolve(&[], &env, &Flags::default()).unwrap_err().to_string();
    assert_eq!(error, "unknown profile `x` (from LOADTEST_PROFILE); there is: default");
    assert!(resolve(&[], &BTreeMap::new(), &with_profile("default")).is_ok());
}

#[test]
fn an_unknown_variable_of_ours_is_refused_and_others_are_let_be() {
    let env = |name| resolve(&[], &variables(&[(name, "1")]), &Flags::default());
    assert_eq!(
        env("LOADTEST_ITERATION").unwrap_err().to_string(),
        "unknown variable LOADTEST_ITERATION in the environment; did you mean `LOADTEST_ITERATIONS`?"
    );
    assert_eq!(
        env("LOADTEST_DURATION").unwrap_err().to_string(),
        "LOADTEST_DURATION: `1` is not a duration; write it with a unit, such as 600ms, 30s, 1m30s or 2h"
    );
    for name in ["LOADTEST_RUN", "MY_LOADTEST_THING", "__LOADTEST_SOCKET"] {
        assert!(env(name).is_ok(), "{name}");
    }
}

#[test]
fn flags_and_environment_stand_over_a_profiles_scenarios() {
    let text = "[profile.ci.scenario.auth]\nstages = ['10s:20']\n[profile.ci.scenario.read]\nvus = 3\niterations = 9\n";
    let config = |env: &[(&str, &str)], flags: Flags| {
        resolve(
            &[file("loadtest.toml", text)],
            &variables(env),
            &Flags { profile: Some("ci".into()), ..flags },
        )
        .unwrap()
        .overrides()
    };
    let users = |vus| LoadOverride { vus: Some(vus), ..LoadOverride::default() };
    let stages = |target| LoadOverride {
        stages: vec![Stage::new(Duration::from_secs(10), f64::from(target))],
        ..LoadOverride::default()
    };
    let counted = |vus| LoadOverride { iterations: Some(9), ..users(vus) };
    let named = |list: &[(&str, LoadOverride)]| {
        list.iter().map(|(name, load)| ((*name).to_owned(), load.clone())).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(config(&[], Flags::default()), named(&[("auth", stages(20)), ("read", counted(3))]));
    assert_eq!(
        config(&[("LOADTEST_VUS", "5")], Flags::default()),
        named(&[("*", users(5)), ("auth", stages(5)), ("read", counted(5))])
    );
    let timed = LoadOverride { duration: Some(Duration::from_secs(2)), ..users(5) };
    assert_eq!(
        config(
            &[("LOADTEST_VUS", "5")],
            Flags { duration: Some(Duration::from_secs(2)), ..Flags::default() }
        ),
        named(&[("*", timed.clone()), ("auth", timed.clone()), ("read", timed)])
    );
    assert_eq!(config(&[("LOADTEST_STAGES", "10s:7")], Flags::default())["read"], stages(7));
    let both = Flags { vus: Some(1), stages: vec![Stage::new(Duration::ZERO, 1.0)], ..Flags::default() };
    assert_eq!(
        resolve(&[], &BTreeMap::new(), &both).unwrap_err().to_string(),
        "stages (--stage) and vus (--vus) say different loads; give one of them"
    );
}

#[test]
fn the_reference_phase_is_said_by_profile_environment_and_flag() {
    let text = "[profile.ci.reference]\nat-most = '9s'\n";
    let plan = |env: &[(&str, &str)], flags: Flags| {
        resolve(&[file("loadtest.toml", text)], &variables(env), &flags).unwrap().reference_plan()
    };
    assert_eq!(plan(&[], Flags::default()), None);
    let nine = ReferencePlan { at_most: Duration::from_secs(9), ..ReferencePlan::default() };
    assert_eq!(plan(&[], with_profile("ci")), Some(nine));
    let two = ReferencePlan { iterations: 2, ..ReferencePlan::default() };
    assert_eq!(plan(&[("LOADTEST_REFERENCE", "2")], Flags::default()), Some(two));
    let off = Flags { no_reference: true, ..Flags::default() };
    assert_eq!(plan(&[("LOADTEST_REFERENCE", "2")], off).unwrap().iterations, 0);
    assert_eq!(plan(&[("LOADTEST_REFERENCE", "off")], Flags::default()).unwrap().iterations, 0);
}

#[test]
fn the_standard_otlp_variables_win_over_the_file_and_ours_over_them() {
    let text = "[otlp]\nendpoint = 'http://file:4317'\nheaders = { a = '1' }\n";
    let targets = |env: &[(&str, &str)], flags: Flags| {
        let config = resolve(&[file("loadtest.toml", text)], &variables(env), &flags).unwrap();
        let said = |target: Option<OtlpTarget>| {
            target.map(|it| (it.endpoint.value, it.exact, it.protocol.value.as_str(), it.headers.len()))
        };
        (said(config.otlp_traces), said(config.otlp_metrics))
    };
    let at = |url: &str, exact, protocol, headers| Some((url.to_owned(), exact, protocol, headers));
    let file = at("http://file:4317", false, "grpc", 1);
    assert_eq!(targets(&[], Flags::default()), (file.clone(), file.clone()));
    let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env:4318");
    let env = at("http://env:4318", false, "http/protobuf", 1);
    assert_eq!(targets(&[general], Flags::default()), (env.clone(), env.clone()));
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4317/x");
    let traces = at("http://traces:4317/x", true, "grpc", 1);
    assert_eq!(targets(&[general, own], Flags::default()), (traces.clone(), env.clone()));
    assert_eq!(
        targets(&[own, general, ("OTEL_EXPORTER_OTLP_ENDPOINT", "")], Flags::default()),
        (traces, file)
    );
    let flags = Flags { otlp_endpoint: Some("http://flag".to_owned()), ..Flags::default() };
    let flag = at("http://flag", false, "http/protobuf", 1);
    assert_eq!(targets(&[general, own], flags), (flag.clone(), flag));
    assert_eq!(targets(&[general], Flags { no_otlp: true, ..Flags::default() }), (None, None));
}

#[test]
fn headers_in_the_environment_are_decoded_and_a_bad_one_is_not_repeated() {
    let env = |value| {
        variables(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_EXPORTER_OTLP_HEADERS", value)])
    };
    let config = resolve(&[], &env("Authorization=Basic%20a%3D, x-team=load"), &Flags::default()).unwrap();
    let headers = reveal("", &config.otlp_traces.unwrap().headers).unwrap();
    assert_eq!(headers, variables(&[("authorization", "Basic a="), ("x-team", "load")]));
    let error = resolve(&[], &env("x=1,hunter2"), &Flags::default()).unwrap_err().to_string();
    assert!(error.contains("header 2") && !error.contains("hunter2"), "{error}");
}

const CANARY: &str = "c4n4ry";

#[test]
fn secrets_are_resolved_and_never_shown() {
    let text = format!(
        "base-url = 'http://u:{CANARY}@host:1/p?key={CANARY}'\n[env]\nKEY = {{ env = 'MINE' }}\nDB_PASSWORD = '{CANARY}'\n\
         [otlp]\nendpoint = 'http://{CANARY}@x'\nheaders = {{ x-vendor = '{CANARY}' }}\n\
         [[service]]\nname = 'b'\ncommand = ['b', '--password={CANARY}']\n\
         [[service]]\nname = 'a'\nbin = 'a'\nargs = ['--token', '{CANARY}', 'http://u:{CANARY}@x']\nenv = {{ JWT = {{ env = 'MINE' }}, DB = 'postgres://u:{CANARY}@db/x' }}\n"
    );
    let files = [file("loadtest.toml", &text)];
    let config = resolve(&files, &variables(&[("MINE", CANARY)]), &Flags::default()).unwrap();
    assert_eq!(config.scenario_env().unwrap()["KEY"], CANARY);
    assert_eq!(config.secrets(), [CANARY].into_iter().collect());
    let debug = format!("{:?}", config.env["KEY"]);
    for shown in [render_text(&config), render_json(&config), debug] {
        assert!(!shown.contains(CANARY), "{shown}");
    }

    let config = resolve(&files, &BTreeMap::new(), &Flags::default()).unwrap();
    assert_eq!(
        config.scenario_env().unwrap_err().to_string(),
        "loadtest.toml:3: `env.KEY` is to be taken from the variable MINE, which is not set"
    );
}

#[test]
fn every_value_is_printed_with_where_it_came_from() {
    let text = "base-url = \"http://127.0.0.1:{service.api.port}\"\n\
                [[service]]\nname = 'api'\nbin = 'api'\nargs = ['--port', '{port}']\n\
                [profile.ci.scenario.auth]\nstages = ['10s:20', '5s:0']\n";
    let flags = Flags { env: vec![("REGION".into(), "eu".into())], ..with_profile("ci") };
    let env = variables(&[("LOADTEST_TRACE", "ratio:0.5")]);
    let config = resolve(&[file("loadtest.toml", text)], &env, &flags).unwrap();
    insta::assert_snapshot!(render_text(&config), @r"
    profile               ci                                   --profile
    base-url              http://127.0.0.1:{service.api.port}  loadtest.toml:1
    env.REGION            eu                                   -e
    trace                 ratio:0.5                            LOADTEST_TRACE
    keep-runs             50                                   default
    service.api.bin       api                                  loadtest.toml:4
    service.api.args      --port {port}                        loadtest.toml:5
    scenario.auth.stages  10s:20,5s:0                          loadtest.toml:7 (profile ci)
    ");
    let json: serde_json::Value = serde_json::from_str(&render_json(&config)).unwrap();
    assert_eq!(
        json[1],
        serde_json::json!({
            "key": "base-url",
            "value": "http://127.0.0.1:{service.api.port}",
            "source": { "layer": "file", "path": "loadtest.toml", "line": 1 },
        })
    );
}

#[test]
fn files_are_found_in_both_places_and_two_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        sys::fs::write_whole(&path, text.as_bytes()).unwrap();
    };
    let flags = Flags { profile: Some("default".to_owned()), ..Flags::default() };
    let read =
        |package: Option<&str>| load(root.path(), package.map(|it| root.path().join(it)).as_deref(), &flags);
    assert!(read(None).unwrap().base_url.is_none());
    write(".config/loadtest.toml", "base-url = 'http://1'");
    assert_eq!(read(None).unwrap().base_url.unwrap().source.to_string(), ".config/loadtest.toml:1");
    write("p/loadtest.toml", "base-url = 'http://2'");
    assert_eq!(read(Some("p")).unwrap().base_url.unwrap().source.to_string(), "p/loadtest.toml:1");
    write("loadtest.toml", "");
    assert_eq!(
        read(None).unwrap_err().to_string(),
        "both loadtest.toml and .config/loadtest.toml exist; keep one of them"
    );
}
