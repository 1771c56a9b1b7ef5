//! What a scenario says once for its requests, and what a request says for itself.

use super::*;

/// More than a response may be long that is kept.
const HUGE: u64 = (64 << 20) + 1;

#[test]
fn the_scenario_says_what_is_expected_and_a_request_may_say_otherwise() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        for code in [404, 200] {
            vu.get("/status/{code}").path("code", code).name(format!("{code}")).send().await?;
        }
        vu.get("/status/{code}").path("code", 200).name("own").expected_status(200).send().await?;
        Ok(())
    };
    let outcome = run(&server, scenario("s", flow).expected_status(404).iterations_per_vu(1, 2));
    for (name, failed) in [("404", 0), ("200", 2), ("own", 0)] {
        let step = outcome.step(StepKind::Request, name);
        assert_eq!((step.count, step.failed, step.latency.count()), (2, failed, 2 - failed), "{name}");
    }
}

#[test]
fn redirects_are_followed_as_often_as_the_scenario_or_the_request_says() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let response = vu.get("/moved").send().await?.expect_status(302)?;
        vu.check("the redirect", response.url().ends_with("/moved") && response.text()? == "moved");
        vu.check("no error", vu.get("/circle").send().await?.status() == 302);
        let response = vu.get("/moved").name("followed").max_redirects(1).send().await?.expect_status(200)?;
        vu.check("where it led", response.url() == format!("{}/", vu.env("BASE").unwrap_or_default()));
        let error = vu.get("/circle").name("three").max_redirects(3).send().await.unwrap_err();
        vu.check("too many", error.chain() == "three: protocol: more than 3 redirects");
        Ok(())
    };
    let scenarios = vec![scenario("s", flow).max_redirects(0).iterations_per_vu(1, 1)];
    let mut plan = plan(Some(&server), &scenarios);
    plan.env.insert("BASE".into(), server.url());
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    let checks = &outcome.load().checks;
    assert_eq!(
        checks.values().map(|check| (check.passes, check.fails)).collect::<Vec<_>>(),
        [(1, 0); 4],
        "{checks:?}"
    );
    let statuses = |name| outcome.step(StepKind::Request, name).status.clone();
    assert_eq!((statuses("GET /moved"), statuses("GET /circle")), ([(302, 1)].into(), [(302, 1)].into()));
    assert_eq!((statuses("followed"), statuses("three")), ([(200, 1), (302, 1)].into(), [(302, 3)].into()));
}

#[test]
fn a_discarded_body_is_counted_and_not_kept_however_long_it_is() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let response = vu.get("/big/{n}").path("n", HUGE).send().await?.expect_status(200)?;
        vu.check("empty", response.bytes().is_empty());
        let error = response.text().unwrap_err().to_string();
        vu.check(
            "says why",
            error.ends_with("the body was discarded; call .keep_body() on the request to read it"),
        );
        vu.check("kept", vu.get("/").keep_body().send().await?.text()? == "ok");
        Ok(())
    };
    let outcome = run(&server, scenario("s", flow).discard_bodies().iterations_per_vu(1, 1));
    assert_eq!(outcome.step(StepKind::Request, "GET /big/{n}").bytes_received, HUGE);
    assert_eq!(outcome.load().requests().errors, 0);
    let checks = &outcome.load().checks;
    assert_eq!(checks.values().map(|check| check.passes).sum::<u64>(), 3, "{checks:?}");
    let flow = async |vu: &Vu| -> Result {
        let kept = vu.get("/big/{n}").path("n", HUGE).send().await.unwrap_err();
        vu.check("bounded", kept.chain().ends_with("the body is longer than 64 MiB, the most that is read"));
        let response = vu.get("/big/{n}").path("n", HUGE).discard_body().send().await?;
        vu.check("not kept", response.bytes().is_empty());
        Ok(())
    };
    let outcome = run(&server, scenario("s", flow).iterations_per_vu(1, 1));
    assert_eq!(outcome.load().checks.values().map(|check| check.passes).sum::<u64>(), 2);
}

#[test]
fn a_response_knows_what_its_time_consists_of() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        for kept in [false, true] {
            let timings = vu.get("/delay/{ms}").path("ms", 40).send().await?.timings();
            let connecting = timings.blocked() + timings.dns() + timings.connecting() + timings.tls();
            vu.check("connects once", connecting.is_zero() == kept);
            vu.check("waits", timings.waiting() >= millis(40));
            let since_sent = timings.sending() + timings.waiting() + timings.receiving();
            vu.check(
                "adds up",
                since_sent == timings.duration() && since_sent + connecting == timings.total(),
            );
        }
        Ok(())
    };
    let outcome = run(&server, scenario("s", flow).iterations_per_vu(1, 1));
    let checks = &outcome.load().checks;
    assert_eq!(
        checks.values().map(|check| (check.passes, check.fails)).collect::<Vec<_>>(),
        [(2, 0); 3],
        "{checks:?}"
    );
}
