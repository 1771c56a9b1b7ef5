//! Requests that do not simply succeed, and what is counted of them.

use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::*;
use crate::model::phases::HttpPhase;

#[test]
fn what_the_end_cuts_off_is_counted_and_its_latency_is_a_lower_bound() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/delay/{ms}").path("ms", 30_000).send().await?;
        Ok(())
    };
    let outcome =
        run(&server, scenario("slow", flow).constant_vus(3, millis(100)).graceful_stop(millis(100)));
    let stats = outcome.load();
    assert_eq!((stats.iterations, stats.interrupted_iterations), (0, 3));
    let step = outcome.step(StepKind::Request, "GET /delay/{ms}");
    assert_eq!((step.count, step.interrupted, step.latency.censored_count()), (0, 3, 3));
    assert!(step.latency.percentile(50.0).unwrap().at_least);
    // The generator ended them, not the server.
    assert_eq!((step.errors, step.failed), (0, 0));
    assert!(step.error_types.is_empty() && step.status.is_empty() && stats.errors.commonest().is_none());
    assert_eq!(server.seen().requests, 3);
}

#[test]
fn a_timeout_is_an_error_whose_latency_is_a_lower_bound() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let error = vu.get("/delay/{ms}").path("ms", 30_000).timeout(millis(50)).send().await.unwrap_err();
        vu.check("it is a timeout", error.is_timeout() && error.is_transport());
        Err(error)
    };
    let outcome = run(&server, scenario("late", flow).iterations_per_vu(1, 2));
    let step = outcome.step(StepKind::Request, "GET /delay/{ms}");
    assert_eq!(step.error_types, BTreeMap::from([("timeout".to_owned(), 2)]));
    assert_eq!((step.count, step.errors, step.latency.censored_count()), (2, 2, 2));
    let waiting = step.phase(HttpPhase::Waiting).percentile(50.0).unwrap();
    assert!(waiting.at_least && waiting.nanos > 0, "{waiting:?}");
    assert_eq!(step.phase(HttpPhase::Connecting).complete_count(), 2);
    assert_eq!(outcome.load().checks["it is a timeout"].passes, 2);
    assert_eq!(outcome.load().errors.commonest(), Some("GET /delay/{ms}: no whole response within 50ms"));
}

#[test]
fn each_failure_of_a_transfer_has_its_class() {
    for (path, class) in [("/drop", "reset"), ("/short", "body")] {
        let server = Server::start();
        let flow = async move |vu: &Vu| -> Result {
            vu.get(path).send().await?;
            Ok(())
        };
        let outcome = run(&server, scenario("bad", flow).iterations_per_vu(1, 3));
        let step = outcome.step(StepKind::Request, &format!("GET {path}"));
        assert_eq!(step.error_types, BTreeMap::from([(class.to_owned(), 3)]), "{path}");
        assert_eq!((step.errors, step.failed, step.latency.count()), (3, 3, 0));
    }
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start();
    let flow = async move |vu: &Vu| -> Result {
        vu.get(&format!("http://{unused}/")).name("refused").send().await?;
        Ok(())
    };
    let outcome = run(&server, scenario("refused", flow).iterations_per_vu(1, 1));
    let step = outcome.step(StepKind::Request, "refused");
    assert_eq!(step.error_types, BTreeMap::from([("connect_refused".to_owned(), 1)]));
}

#[test]
fn a_connection_that_the_server_closed_is_replaced_without_repeating_a_post() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.post("/close").body("once").send().await?;
        vu.sleep(millis(5)).await;
        Ok(())
    };
    let outcome = run(&server, scenario("closing", flow).iterations_per_vu(2, 10));
    let (seen, requests) = (server.seen(), outcome.load().requests());
    assert!(requests.count - requests.errors <= seen.requests && seen.requests <= requests.count);
    assert_eq!(seen.connections, seen.requests);
}

#[test]
fn a_redirect_is_followed_and_each_hop_is_a_request() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.get("/moved").expected_status(200).send().await?.expect_status(200)?;
        Ok(())
    };
    let scenarios = vec![scenario("moving", flow).iterations_per_vu(2, 5)];
    let plan = RunPlan { trace: TracePolicy::All, ..plan(Some(&server), &scenarios) };
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    let (stats, seen) = (outcome.load(), server.seen());
    assert_eq!(seen.targets, BTreeMap::from([("/moved".to_owned(), 10), ("/".to_owned(), 10)]));
    let step = outcome.step(StepKind::Request, "GET /moved");
    assert_eq!((stats.failed_iterations, stats.requests().count, step.count), (0, 20, 20));
    assert_eq!((&step.status, step.latency.complete_count(), step.errors), (&seen.status, 20, 0));
    assert_eq!(step.bytes_received, 10 * ("moved".len() + "ok".len()) as u64);
    assert_eq!(seen.connections, 2);
    let distinct: BTreeSet<_> = seen.traceparents.iter().collect();
    assert_eq!((seen.traceparents.len(), distinct.len()), (20, 20));
}

#[test]
fn redirects_are_followed_ten_times_and_to_another_host_never() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let error = vu.get("/circle").send().await.unwrap_err();
        vu.check("no end", error.to_string() == "GET /circle: protocol");
        let response = vu.get("/away").send().await?.expect_status(302)?;
        vu.check("as it is", response.text()? == "moved" && response.header("location").is_some());
        Ok(())
    };
    let scenarios = vec![scenario("away", flow).iterations_per_vu(2, 3)];
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    let (circle, seen) = (outcome.step(StepKind::Request, "GET /circle"), server.seen());
    assert_eq!(seen.targets, BTreeMap::from([("/circle".to_owned(), 66), ("/away".to_owned(), 6)]));
    assert_eq!((circle.count, circle.status[&302], circle.error_types["protocol"]), (66, 60, 6));
    assert_eq!(outcome.step(StepKind::Request, "GET /away").status, BTreeMap::from([(302, 6)]));
    let checks = &outcome.load().checks;
    assert_eq!((checks["no end"].passes, checks["as it is"].passes), (6, 6));
    assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    assert_eq!(outcome.warnings[0].code, "redirect-refused");
    assert!(outcome.warnings[0].message.starts_with("`GET /away` was redirected to localhost, "));
}

/// A user in a traced iteration, that iteration, and the spans that come of it.
fn traced_user(server: &Server) -> (Vu, IterationTrace, SpanSource) {
    let (sink, spans) = buffer::spans(&[], Secrets::default());
    let parts = TracerParts {
        policy: TracePolicy::All,
        prefix: TracePrefix::new(1),
        sink,
        run_span: (TraceId(1), SpanId(1)),
    };
    let now = crate::sys::clock::now();
    let tracer = Rc::new(Tracer::new(parts, Phase::Load, "s", 1, now).unwrap());
    let site = Site { target: Target::new(Some(&server.url())).unwrap(), ..Site::default() };
    let facts = RunFacts {
        env: BTreeMap::new(),
        unique: AtomicU64::new(0),
        untraced: None,
        epoch: crate::sys::clock::now(),
        misconfiguration: OnceLock::new(),
        refused_redirect: OnceLock::new(),
        seed: 0,
        seats: Seats::default(),
        files: Arc::default(),
    };
    let vu = Vu::new(VuParts {
        id: 1,
        slot: 0,
        scenario: 0,
        run: facts.into(),
        requests: Arc::default(),
        site: Arc::new(site),
        env: Arc::default(),
        shard: None,
        tracer: Some(tracer.clone()),
        files: Rc::default(),
    });
    let trace = tracer.begin(1, 0, now, None);
    vu.swap_current(Current { trace: Some(Rc::new(trace.clone())), parent: None, group: None });
    (vu, trace, spans)
}

#[test]
fn requests_of_a_batch_have_spans_of_their_own_below_the_step_that_they_are_in() {
    let server = Server::start();
    let (vu, trace, spans) = traced_user(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let assets = ["/a", "/b", "/c"].map(|path| vu.get(path));
        let page = vu.step("page", async { Ok(vu.batch(assets).await) }).await.unwrap();
        assert!(page.iter().all(Result::is_ok));
        vu.get("/after").send().await.unwrap();
    });
    let spans = spans.taken();
    let step = spans.iter().find(|span| span.name == "page").unwrap();
    let mut below: Vec<_> = spans.iter().filter(|span| span.parent_span_id == step.span_id).collect();
    below.sort_by_key(|span| span.name.clone());
    assert_eq!(below.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["GET /a", "GET /b", "GET /c"]);
    let root = trace.root.0.to_be_bytes();
    let beside: Vec<_> =
        spans.iter().filter(|span| span.parent_span_id == root).map(|span| &*span.name).collect();
    assert_eq!(beside, ["page", "GET /after"]);
}

#[test]
fn each_hop_of_a_traced_redirect_has_a_span_of_its_own() {
    let server = Server::start();
    let (vu, trace, spans) = traced_user(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(vu.post("/moved").send()).unwrap();
    let mut headers = Vec::new();
    let mut told = Vec::new();
    for span in spans.taken() {
        let id = SpanId(u64::from_be_bytes(span.span_id.try_into().unwrap()));
        headers.push(traceparent(trace.trace, id, true));
        assert_eq!(span.parent_span_id, trace.root.0.to_be_bytes());
        let of =
            |key: &str| span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value;
        assert_eq!(of("loadtest.step"), Some(Value::StringValue("POST /moved".into())));
        told.push((
            span.name,
            of("url.template"),
            of("http.request.resend_count"),
            of("http.response.status_code"),
        ));
    }
    let (template, status) = (Value::StringValue("/moved".into()), |code| Some(Value::IntValue(code)));
    let wanted = [
        ("POST /moved".to_owned(), Some(template), None, status(302)),
        ("GET".to_owned(), None, Some(Value::IntValue(1)), status(200)),
    ];
    assert_eq!(told, wanted);
    assert_eq!(server.seen().traceparents, headers);
}

#[test]
fn a_large_body_arrives_whole() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let response = vu.get("/big/{n}").path("n", 10_000_000).send().await?;
        vu.check("all of it", response.bytes().len() == 10_000_000);
        Ok(())
    };
    let outcome = run(&server, scenario("big", flow).iterations_per_vu(1, 2));
    assert_eq!(outcome.load().checks["all of it"].passes, 2);
    assert_eq!(outcome.load().requests().bytes_received, 20_000_000);
}
