//! What scenarios, and the layers around them, say of connections, in whole runs.

use super::*;
use crate::HttpOptions;
use crate::model::http::HttpSettings;

async fn one_request(vu: &Vu) -> Result {
    vu.get("/").send().await?;
    Ok(())
}

fn planned(server: &Server, scenarios: &[Scenario], above: HttpSettings) -> RunPlan {
    RunPlan { http: HttpPlan { above, ..HttpPlan::default() }, ..plan(Some(server), scenarios) }
}

#[test]
fn what_the_generator_cannot_send_is_no_error_of_the_server() {
    let server = Server::start();
    let options = HttpOptions::new().source_ips("192.0.2.1");
    let outcome = run(&server, scenario("s", one_request).http(options).iterations_per_vu(2, 3));
    let step = outcome.step(StepKind::Request, "GET /");
    assert_eq!((step.count, step.errors, step.failed, step.generator_errors), (0, 0, 0, 6));
    assert_eq!(step.error_types, [("generator_address".to_owned(), 6)].into());
    assert_eq!((step.latency.count(), step.bytes_sent), (0, 0));
    assert_eq!(outcome.load().failed_iterations, 6, "the iteration is told all the same");
}

#[test]
fn a_host_that_is_not_allowed_ends_the_run_before_its_first_request() {
    let flow = async |vu: &Vu| -> Result {
        vu.get("http://elsewhere.invalid/").send().await?;
        Ok(())
    };
    let server = Server::start();
    for (options, is_allowed) in
        [(HttpOptions::new(), false), (HttpOptions::new().allow_host("elsewhere.invalid"), true)]
    {
        let outcome = run(&server, scenario("s", flow).http(options).iterations_per_vu(1, 1));
        if is_allowed {
            let step = outcome.step(StepKind::Request, "GET http://elsewhere.invalid/");
            assert_eq!(step.error_types, [("dns".to_owned(), 1)].into());
        } else {
            let Failure { kind, message } = outcome.failure();
            assert_eq!(*kind, FailureKind::Configuration);
            assert!(message.contains("--allow-host elsewhere.invalid"), "{message}");
        }
    }
}

#[test]
fn whoever_takes_any_certificate_is_warned() {
    let server = Server::start();
    let scenarios = vec![
        scenario("careless", one_request).http(HttpOptions::new().insecure()).iterations_per_vu(1, 1),
        scenario("careful", one_request).iterations_per_vu(1, 1),
    ];
    let plan = planned(&server, &scenarios, HttpSettings::default());
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert_eq!(warning.code, "tls-insecure");
    assert!(warning.message.starts_with("careless takes any certificate"), "{}", warning.message);
}

#[test]
fn what_stands_above_the_scenario_wins_and_contradictions_end_the_run() {
    let server = Server::start();
    let make =
        || vec![scenario("s", one_request).http(HttpOptions::new().insecure()).iterations_per_vu(1, 1)];
    let above = HttpSettings { insecure: Some(false), ..HttpSettings::default() };
    let scenarios = make();
    let plan = planned(&server, &scenarios, above);
    assert_eq!(run_with(scenarios, plan, &StopFlag::default()).load().iterations, 1);
    let above = HttpSettings { ca_files: vec!["ca.pem".into()], ..HttpSettings::default() };
    let scenarios = make();
    let plan = planned(&server, &scenarios, above);
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    let Failure { kind, message } = outcome.failure();
    assert_eq!(*kind, FailureKind::Configuration);
    assert!(message.contains("scenario `s`: insecure and ca-files"), "{message}");
}

#[test]
fn each_request_without_reuse_connects() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        for _ in 0..3 {
            vu.get("/").send().await?;
        }
        Ok(())
    };
    let options = [HttpOptions::new(), HttpOptions::new().no_connection_reuse()];
    for (options, connected) in options.into_iter().zip([1, 3]) {
        let outcome = run(&server, scenario("s", flow).http(options).iterations_per_vu(1, 1));
        let step = outcome.step(StepKind::Request, "GET /");
        assert_eq!(step.count, 3);
        let connecting = step.phase(crate::model::phases::HttpPhase::Connecting);
        let zeros = connecting.buckets().find(|(micros, _)| *micros == 0).map_or(0, |(_, count)| count);
        assert_eq!(connecting.complete_count(), 3);
        assert_eq!(3 - zeros, connected, "{connecting:?}");
    }
}

#[test]
fn a_redirect_to_a_port_that_is_elsewhere_is_not_followed() {
    let server = super::answering::Answering::start(|_| {
        let builder = http::Response::builder().status(302).header("location", "http://localhost:81/");
        builder.body("moved".into()).unwrap()
    });
    let options = HttpOptions::new().resolve("localhost", 81, [192, 0, 2, 1]);
    let scenarios = vec![scenario("s", one_request).http(options).iterations_per_vu(1, 1)];
    let base_url = Some(format!("http://localhost:{}", server.address.port()));
    let plan = RunPlan { base_url, ..plan(None, &scenarios) };
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    assert_eq!(outcome.step(StepKind::Request, "GET /").status, [(302, 1)].into());
    let told = format!("{:?}", outcome.warnings);
    assert!(told.contains("redirected to localhost:81, which may not be sent load"), "{told}");
}

#[test]
fn a_body_that_had_no_connection_is_not_counted_as_sent() {
    let flow = async |vu: &Vu| -> Result {
        vu.post("/").body("four").send().await?;
        Ok(())
    };
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let scenarios = vec![scenario("s", flow).iterations_per_vu(1, 2)];
    let plan = RunPlan { base_url: Some(format!("http://{closed}")), ..plan(None, &scenarios) };
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    let step = outcome.step(StepKind::Request, "POST /");
    assert_eq!(step.error_types, [("connect_refused".to_owned(), 2)].into());
    assert_eq!(step.bytes_sent, 0);
}
