//! Real processes: shell scripts as services, under a guard.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::sys::{clock, env, process};

/// Two seconds are promised; a busy machine gets more.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// Each process of a service has it in its environment, so that all of them can be found.
const MARKER: &str = "SERVICE_TEST_MARKER";
/// Says what this test binary is when it is run as another process.
const ROLE: &str = "SERVICE_TEST_ROLE";

const FORKS: &str = "sleep 600 & (sleep 600 & sleep 600 &) ; wait";
const LEAVES_ITS_SESSION: &str = "(setsid sh -c 'sleep 600 & exec sleep 600' &) ; exec sleep 600";
const IGNORES_TERM: &str = "trap '' TERM HUP; sleep 600 & while :; do sleep 1; done";

fn spec(name: &str, script: &str) -> ServiceSpec {
    ServiceSpec::shell(name, script)
}

fn line(contains: &str) -> Ready {
    Ready::LogLine { contains: contains.to_owned() }
}

/// A run folder, and a mark for the processes of its services.
struct Run {
    folder: TempDir,
    marker: String,
}

impl Run {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let marker = format!("{MARKER}={}", folder.path().display());
        Self { folder, marker }
    }

    fn at(folder: &Path) -> Context {
        Context {
            guard: as_role("guard", "acts_as_a_guard"),
            inherited: env::vars().collect(),
            traced: true,
            logs: folder.join("services"),
            secrets: vec!["hunter2".to_owned()],
        }
    }

    fn context(&self) -> Context {
        Self::at(self.folder.path())
    }

    fn placeholders(&self, specs: &[ServiceSpec]) -> Placeholders {
        let folder = self.folder.path().to_str().unwrap();
        Placeholders::allocate(specs, folder, "http://127.0.0.1:4317").unwrap()
    }

    async fn start(&self, mut specs: Vec<ServiceSpec>) -> Result<Services, ServiceError> {
        mark(&mut specs);
        Services::start(&specs, &self.placeholders(&specs), &self.context()).await
    }

    /// Why it cannot be started; nothing of it may be left.
    async fn refused(&self, specs: Vec<ServiceSpec>) -> ServiceError {
        let error = self.start(specs).await.unwrap_err();
        assert_eq!(self.processes(), [0; 0]);
        error
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("services/{name}.log"))).unwrap()
    }

    /// Hides what differs from run to run.
    fn shown(&self, error: &ServiceError) -> String {
        error.to_string().replace(self.folder.path().to_str().unwrap(), "RUN")
    }

    /// The ids of the services' processes and of those that they started.
    fn processes(&self) -> Vec<u32> {
        let marked = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == self.marker.as_bytes())
        };
        crate::sys::proc::processes().iter().map(|process| process.pid).filter(marked).collect()
    }

    fn wait_for_processes(&self, wanted: impl Fn(usize) -> bool) {
        let begin = clock::now();
        loop {
            let processes = self.processes();
            if wanted(processes.len()) {
                return;
            }
            assert!(begin.elapsed() < GONE_WITHIN, "{} processes: {processes:?}", processes.len());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn mark(specs: &mut [ServiceSpec]) {
    for spec in specs {
        spec.env.insert(MARKER.to_owned(), "{run_dir}".to_owned());
    }
}

/// The command line that runs one test of this binary in a process of its own.
fn as_role(role: &str, test: &str) -> Vec<OsString> {
    let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    // With one test thread, libtest writes the test's name in front of the first line.
    let args = ["--exact", &test, "--nocapture", "--test-threads=2"].map(OsString::from);
    let program = process::own_program().unwrap().into();
    [OsString::from("env"), format!("{ROLE}={role}").into(), program].into_iter().chain(args).collect()
}

fn role() -> Option<String> {
    env::var(ROLE)
}

#[test]
fn acts_as_a_guard() {
    if role().as_deref() == Some("guard") {
        guard::main();
        #[expect(clippy::exit, reason = "libtest would go on to report to a tool that may be gone")]
        std::process::exit(0);
    }
}

/// Starts the services that are hardest to end, says where its guard is, and stops when they end.
#[tokio::test]
async fn acts_as_a_tool() {
    let Some(folder) = role().filter(|role| role != "guard") else { return };
    let mut specs =
        vec![spec("forks", FORKS), spec("leaves", LEAVES_ITS_SESSION), spec("ignores", IGNORES_TERM)];
    mark(&mut specs);
    let placeholders = Placeholders::allocate(&specs, folder.as_str(), "").unwrap();
    let services = Services::start(&specs, &placeholders, &Run::at(Path::new(&folder))).await.unwrap();

    // They end when this process does, because their input is closed then.
    let mut spared = process::command("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
    services.spare(spared.id().unwrap());
    let mut same_group = process::command("cat").stdin(Stdio::piped()).spawn().unwrap();
    say(&format!("guard {}", services.guard_pid().unwrap()));

    let error = services.exited().await;
    let others_live = spared.try_wait().unwrap().is_none() && same_group.try_wait().unwrap().is_none();
    services.stop().await;
    say(&format!("others live: {others_live}; {error}"));
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "said: {line}").unwrap();
}

struct Tool {
    child: Child,
    said: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Tool {
    #[expect(clippy::disallowed_methods, reason = "the test is what watches this process")]
    fn start(run: &Run) -> Self {
        let command_line = as_role(run.folder.path().to_str().unwrap(), "acts_as_a_tool");
        let mut child =
            Command::new(&command_line[0]).args(&command_line[1..]).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    fn hear(&mut self) -> String {
        let mut said = self.said.by_ref().map_while(Result::ok);
        said.find_map(|line| line.strip_prefix("said: ").map(str::to_owned)).unwrap()
    }

    fn guard(&mut self) -> u32 {
        self.hear().strip_prefix("guard ").unwrap().parse().unwrap()
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// The shells and their sleeps.
const ALL_STARTED: usize = 9;

#[test]
fn a_killed_tool_leaves_no_process() {
    let run = Run::new();
    let mut tool = Tool::start(&run);
    let guard = tool.guard();
    run.wait_for_processes(|count| count >= ALL_STARTED);
    tool.child.kill().unwrap();
    tool.child.wait().unwrap();
    run.wait_for_processes(|count| count == 0);
    let begin = clock::now();
    while crate::sys::proc::Stat::read(guard).is_some_and(|guard| guard.state != 'Z') {
        assert!(begin.elapsed() < GONE_WITHIN, "the guard lives");
    }
}

#[test]
fn a_killed_guard_leaves_no_process_and_what_the_tool_started_lives() {
    let run = Run::new();
    let mut tool = Tool::start(&run);
    let guard = tool.guard();
    run.wait_for_processes(|count| count >= ALL_STARTED);
    kill(guard);
    run.wait_for_processes(|count| count == 0);
    insta::assert_snapshot!(tool.hear(), @"others live: true; the guard process of the services ended unexpectedly; they were ended too");
    assert!(tool.child.wait().unwrap().success());
}

#[tokio::test]
async fn stopping_and_dropping_leave_no_process() {
    let run = Run::new();
    let specs =
        || vec![spec("forks", FORKS), spec("leaves", LEAVES_ITS_SESSION), spec("ignores", IGNORES_TERM)];
    let services = run.start(specs()).await.unwrap();
    run.wait_for_processes(|count| count >= ALL_STARTED);
    services.stop().await;
    assert_eq!(run.processes(), [0; 0]);

    drop(run.start(specs()).await.unwrap());
    run.wait_for_processes(|count| count == 0);
}

#[tokio::test]
async fn a_service_may_clean_up_when_it_is_asked_to_end() {
    let run = Run::new();
    let script = "trap 'echo cleaned; exit' TERM; echo up; while :; do sleep 0.01; done";
    let services =
        run.start(vec![ServiceSpec { ready: Some(line("up")), ..spec("a", script) }]).await.unwrap();
    services.stop().await;
    assert!(run.log("a").ends_with("cleaned\n"), "{}", run.log("a"));
}

#[tokio::test]
async fn services_start_in_order_each_when_the_one_before_is_ready() {
    let run = Run::new();
    let first =
        spec("first", "sleep 0.2; touch {run_dir}/first; echo ready {service.second.port}; exec sleep 600");
    let second = spec("second", "cat {run_dir}/first && echo port {port}; exec sleep 600");
    let specs = vec![
        ServiceSpec { ready: Some(line("ready")), ..first },
        ServiceSpec { ready: Some(line("port")), ..second },
    ];
    let services = run.start(specs).await.unwrap();
    let names: Vec<&str> = services.pids().map(|(name, _)| name).collect();
    assert_eq!(names, ["first", "second"]);
    services.stop().await;
    assert_eq!(run.log("first").replace("ready", "port"), run.log("second"));
}

#[tokio::test]
async fn without_services_there_is_no_guard() {
    let services = Run::new().start(Vec::new()).await.unwrap();
    assert_eq!(services.guard_pid(), None);
    services.stop().await;
}

/// Answers each connection with the next of `statuses`, as the service itself would, once the service is up.
async fn serve(log: PathBuf, port: u16, statuses: &[u16]) -> Vec<String> {
    while !log.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let mut heads = Vec::new();
    for status in statuses {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4096];
        let read = stream.read(&mut head).await.unwrap();
        heads.push(String::from_utf8_lossy(&head[..read]).into_owned());
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
    heads
}

#[tokio::test]
async fn an_http_probe_waits_for_success_and_is_no_request_of_the_load() {
    let run = Run::new();
    let mut specs = vec![ServiceSpec {
        ready: Some(Ready::Http { url: "http://127.0.0.1:{port}/healthz".to_owned() }),
        ..spec("a", "exec sleep 600")
    }];
    mark(&mut specs);
    let placeholders = run.placeholders(&specs);
    let context = run.context();
    let port = placeholders.port("a").unwrap();
    let (services, heads) = tokio::join!(
        Services::start(&specs, &placeholders, &context),
        serve(run.folder.path().join("services/a.log"), port, &[503, 404, 302]),
    );
    services.unwrap().stop().await;
    assert_eq!(heads.len(), 3);
    for head in heads {
        assert!(head.starts_with("GET /healthz "), "{head}");
        assert!(head.contains("-00\r\n"), "{head}");
    }
}

#[tokio::test]
async fn a_service_with_a_port_is_ready_when_something_listens_on_it() {
    let run = Run::new();
    let mut specs = vec![spec("a", "echo {port}; exec sleep 600")];
    mark(&mut specs);
    let placeholders = run.placeholders(&specs);
    let context = run.context();
    let port = placeholders.port("a").unwrap();
    let log = run.folder.path().join("services/a.log");
    let listen = async {
        while !log.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap()
    };
    let (services, listener) = tokio::join!(Services::start(&specs, &placeholders, &context), listen);
    drop(listener);
    services.unwrap().stop().await;
}

#[tokio::test]
async fn a_port_that_answers_before_the_start_is_an_error() {
    let run = Run::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let ready = [
        None,
        Some(Ready::Tcp { address: "127.0.0.1:{port}".to_owned() }),
        Some(Ready::Http { url: "http://127.0.0.1:{port}".to_owned() }),
    ];
    for ready in ready {
        let error = run.refused(vec![ServiceSpec { port: Some(port), ready, ..spec("a", "exit") }]).await;
        let shown = run.shown(&error).replace(&port.to_string(), "PORT");
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown, @"service `a`: 127.0.0.1:PORT already answers before the service was started: end what listens there, or use `{port}` for a free port");
        }
    }
    assert!(!run.folder.path().join("services/a.log").exists(), "it was started");
}

#[tokio::test]
async fn a_service_that_is_never_ready_is_an_error_with_its_last_lines() {
    let run = Run::new();
    let script = "for n in $(seq 30); do echo $n; done; echo password hunter2 >&2; exec sleep 600";
    let never =
        ServiceSpec { ready: Some(line("up")), ready_timeout: Duration::from_secs(1), ..spec("a", script) };
    let error = run.refused(vec![spec("before", "exec sleep 600"), never]).await;
    assert!(!error.is_configuration());
    let ServiceError::NotReady { service, last, log, .. } = error else { panic!("{error}") };
    assert_eq!((service.as_str(), last.as_str()), ("a", "no line of its output contains `up`"));
    assert_eq!((log.lines.len(), log.lines[0].as_str(), log.lines[19].as_str()), (20, "12", "password ***"));
}

#[tokio::test]
async fn a_service_that_does_not_listen_is_an_error_that_says_where() {
    let run = Run::new();
    for ready in [
        Ready::Tcp { address: "127.0.0.1:{port}".to_owned() },
        Ready::Http { url: "http://127.0.0.1:{port}/".to_owned() },
    ] {
        let spec = spec("a", "exec sleep 600");
        let never = ServiceSpec { ready: Some(ready), ready_timeout: Duration::from_millis(200), ..spec };
        let shown = run.shown(&run.refused(vec![never]).await);
        assert!(shown.contains("127.0.0.1:") && shown.contains("onnection refused"), "{shown}");
    }
}

#[tokio::test]
async fn a_service_that_ends_at_once_is_an_error_with_its_status() {
    let run = Run::new();
    let ends = ServiceSpec { ready: Some(line("up")), ..spec("a", "echo one; echo two >&2; exit 3") };
    insta::assert_snapshot!(run.shown(&run.refused(vec![ends]).await), @r"
    service `a` ended before it was ready (exit status: 3)
      | one
      | two
      log: RUN/services/a.log
    ");
}

#[tokio::test]
async fn a_service_that_ends_during_the_run_is_reported() {
    let run = Run::new();
    let services =
        run.start(vec![spec("stays", "exec sleep 600"), spec("a", "read x; kill -9 $$")]).await.unwrap();
    let error = services.exited().await;
    assert_eq!(run.processes().len(), 1);
    services.stop().await;
    insta::assert_snapshot!(run.shown(&error), @r"
    service `a` ended during the run (signal: 9 (SIGKILL))
      it wrote nothing
      log: RUN/services/a.log
    ");
}

#[tokio::test]
async fn a_program_or_folder_that_is_not_there_is_an_error() {
    let run = Run::new();
    let missing = ServiceSpec { program: Program::Built("/nonexistent/blog-auth".into()), ..spec("a", "") };
    insta::assert_snapshot!(run.refused(vec![missing]).await, @"service `a`: cannot start `/nonexistent/blog-auth`: No such file or directory (os error 2)");
    let missing = ServiceSpec { dir: "/nonexistent".into(), ..spec("a", "exit") };
    insta::assert_snapshot!(run.refused(vec![missing]).await, @"service `a`: cannot start `sh`: there is no folder `/nonexistent` to start it in");
}

#[tokio::test]
async fn a_mistake_in_the_configuration_is_found_before_anything_is_started() {
    let run = Run::new();
    let first = || spec("first", "exec sleep 600");
    let ready = |ready| ServiceSpec { ready: Some(ready), ..spec("a", "") };
    let mistakes = [
        spec("../a", ""),
        spec("first", ""),
        spec("a", "{prot}"),
        ready(Ready::Tcp { address: "8080".to_owned() }),
        ready(Ready::Http { url: "127.0.0.1:{port}".to_owned() }),
    ];
    for mistake in mistakes {
        let error = run.refused(vec![first(), mistake]).await;
        assert!(error.is_configuration(), "{error}");
        assert!(!run.folder.path().join("services").exists(), "something was started: {error}");
    }
}

#[tokio::test]
async fn a_service_that_writes_ten_megabytes_that_nobody_reads_goes_on() {
    let run = Run::new();
    let script = "yes 0123456789012345678901234567890123456789 | head -c 10000000; echo done; exec sleep 600";
    let services =
        run.start(vec![ServiceSpec { ready: Some(line("done")), ..spec("a", script) }]).await.unwrap();
    services.stop().await;
    assert_eq!(run.log("a").len(), 10_000_005);
}

#[tokio::test]
async fn a_log_is_private_and_holds_no_secret() {
    let run = Run::new();
    let script = "printf 'password hun'; sleep 0.1; echo ter2; echo up; exec sleep 600";
    let services =
        run.start(vec![ServiceSpec { ready: Some(line("up")), ..spec("a", script) }]).await.unwrap();
    services.stop().await;
    assert_eq!(run.log("a"), "password ***\nup\n");
    for (path, mode) in [("services", 0o700), ("services/a.log", 0o600)] {
        let permissions = std::fs::metadata(run.folder.path().join(path)).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{path}");
    }
}

#[tokio::test]
async fn a_service_gets_the_planned_environment_and_no_other() {
    let run = Run::new();
    let mut specs = vec![ServiceSpec {
        env: BTreeMap::from([("DATA".to_owned(), "{run_dir}/data".to_owned())]),
        program: Program::Command("env".to_owned()),
        args: Vec::new(),
        ..spec("a", "")
    }];
    mark(&mut specs);
    let mut context = run.context();
    let inherited =
        [("PATH", env::var("PATH").unwrap()), ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=1".to_owned())];
    context.inherited = inherited.map(|(name, value)| (name.to_owned(), value)).into();
    let services = Services::start(&specs, &run.placeholders(&specs), &context).await.unwrap();
    services.exited().await;
    services.stop().await;
    let log = run.log("a");
    let mut names: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    insta::assert_snapshot!(names.join(" "), @"DATA OTEL_BSP_MAX_QUEUE_SIZE OTEL_BSP_SCHEDULE_DELAY OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL OTEL_RESOURCE_ATTRIBUTES OTEL_SERVICE_NAME OTEL_TRACES_SAMPLER PATH SERVICE_TEST_MARKER");
    assert!(log.contains(&format!("DATA={}/data\n", run.folder.path().display())), "{log}");
}
