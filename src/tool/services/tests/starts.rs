//! From the start of a service to its readiness, and what it is told and leaves behind.

use super::*;

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
async fn placeholders_are_filled_in_in_the_folder_and_the_line_that_is_waited_for() {
    let run = Run::new();
    let own = ServiceSpec {
        dir: Some("{run_dir}".to_owned()),
        ready: Some(line("at {run_dir} on {port}")),
        ready_timeout: Duration::from_secs(20),
        ..spec("a", "echo at $(pwd) on {port}; exec sleep 600")
    };
    run.start(vec![own]).await.unwrap().stop().await;
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
        run.start(vec![spec("stays", "exec sleep 600"), spec("a", "sleep 1; kill -9 $$")]).await.unwrap();
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
    let missing = ServiceSpec { dir: Some("/nonexistent".to_owned()), ..spec("a", "exit") };
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
        ready: Some(line("that is all")),
        ..spec("a", r"tr '\0' '\n' < /proc/$$/environ; echo that is all; exec sleep 600")
    }];
    mark(&mut specs);
    let mut context = run.context();
    let inherited =
        [("PATH", env::var("PATH").unwrap()), ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=1".to_owned())];
    context.inherited = inherited.map(|(name, value)| (name.to_owned(), value)).into();
    let services = Services::start(&specs, &run.placeholders(&specs), &context).await.unwrap();
    services.stop().await;
    let log = run.log("a");
    let mut names: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    insta::assert_snapshot!(names.join(" "), @"DATA OTEL_BSP_MAX_QUEUE_SIZE OTEL_BSP_SCHEDULE_DELAY OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL OTEL_RESOURCE_ATTRIBUTES OTEL_SERVICE_NAME OTEL_TRACES_SAMPLER PATH SERVICE_TEST_MARKER");
    assert!(log.contains(&format!("DATA={}/data\n", run.folder.path().display())), "{log}");
}
