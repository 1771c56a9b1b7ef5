//! Cookies and compressed bodies in whole runs.

use std::io::Write as _;

use super::answering::{Answer, Answering, Asked};
use super::*;

/// Sets a cookie on `/login` and sends the user on; says `set-cookie` as the query says on `/set`.
fn site(asked: &Asked) -> Answer {
    let builder = http::Response::builder();
    let builder = match (asked.uri().path(), asked.uri().query()) {
        ("/login", _) => builder
            .status(303)
            .header("location", "/account")
            .header("set-cookie", "session=s1; HttpOnly")
            .header("set-cookie", "only=here; Path=/login"),
        ("/logout", _) => {
            builder.status(303).header("location", "/bye").header("set-cookie", "session=; Max-Age=0")
        }
        ("/set", Some(cookie)) => builder.header("set-cookie", cookie),
        _ => builder,
    };
    builder.body("ok".into()).unwrap()
}

fn run_at(server: &Answering, scenario: Scenario) -> Outcome {
    let scenarios = vec![scenario];
    let plan = RunPlan { base_url: Some(server.url()), ..plan(None, &scenarios) };
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    outcome.end.as_ref().expect("a run that ends well");
    assert_eq!(outcome.load().failed_iterations, 0, "{:?}", outcome.load().errors.commonest());
    outcome
}

fn told(server: &Answering, header: &str) -> Vec<(String, String)> {
    let value = |asked: &Asked| {
        asked.headers().get(header).map_or(String::new(), |it| it.to_str().unwrap().to_owned())
    };
    server.asked().iter().map(|asked| (asked.uri().path().to_owned(), value(asked))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect()
}

async fn signing_in(vu: &Vu) -> Result {
    vu.get("/first").send().await?;
    vu.post("/login").send().await?.expect_status(200)?;
    vu.get("/login/again").header("cookie", "own=1").send().await?;
    Ok(())
}

#[test]
fn a_cookie_is_sent_from_the_hop_after_it_was_set_until_the_iteration_ends() {
    let server = Answering::start(site);
    run_at(&server, scenario("s", signing_in).iterations_per_vu(1, 2));
    let iteration = [("/first", ""), ("/login", ""), ("/account", "session=s1"), ("/login/again", "own=1")];
    assert_eq!(told(&server, "cookie"), pairs(&[iteration, iteration].concat()));
}

#[test]
fn a_cookie_that_a_redirect_takes_away_is_not_sent_to_where_it_leads() {
    let server = Answering::start(site);
    let flow = async |vu: &Vu| -> Result {
        vu.cookies().set("session", "s1")?;
        vu.post("/logout").send().await?.expect_status(200)?;
        Ok(())
    };
    run_at(&server, scenario("s", flow).iterations_per_vu(1, 1));
    assert_eq!(told(&server, "cookie"), pairs(&[("/logout", "session=s1"), ("/bye", "")]));
}

#[test]
fn kept_cookies_stay_with_their_user_from_its_setup_on_and_users_share_none() {
    let server = Answering::start(site);
    let scenario = stateful("s")
        .vu_setup(async |vu: &Vu, (): &()| -> Result {
            vu.get("/set").query("user", vu.id()).send().await?;
            Ok(())
        })
        .iteration(async |vu: &Vu, (): &mut (), (): &()| -> Result {
            let mine = vu.id().to_string();
            vu.check("its own", vu.cookies().get("user") == Some(mine));
            vu.get("/page").send().await?;
            Ok(())
        });
    let outcome = run_at(&server, scenario.keep_cookies().iterations_per_vu(3, 4));
    assert_eq!((outcome.load().checks["its own"].passes, outcome.load().checks["its own"].fails), (12, 0));
    let mut pages = told(&server, "cookie");
    pages.retain(|(path, _)| path == "/page");
    pages.sort();
    let expected: Vec<_> =
        (1..=3).flat_map(|user| vec![("/page".to_owned(), format!("user={user}")); 4]).collect();
    assert_eq!(pages, expected);
}

#[test]
fn a_scenario_reads_sets_and_removes_cookies() {
    let server = Answering::start(site);
    let flow = async |vu: &Vu| -> Result {
        let cookies = vu.cookies();
        cookies.set("a", "1")?;
        cookies.set_for("http://localhost:1/", "b", "2")?;
        let response = vu.get("/set").query("c", "3").send().await?;
        vu.check("told", response.cookies().collect::<Vec<_>>() == [("c", "3")]);
        vu.check("sent", cookies.sent_to("/")? == [("a".into(), "1".into()), ("c".into(), "3".into())]);
        vu.check("elsewhere", cookies.sent_to("http://localhost/")? == [("b".into(), "2".into())]);
        cookies.remove("c");
        vu.get("/one").send().await?;
        cookies.clear();
        vu.get("/none").send().await?;
        for (name, value) in [("", "x"), ("a b", "x"), ("a", "x;y"), ("a\n", "x"), ("a", "x\r\ny: z")] {
            let error = cookies.set(name, value).unwrap_err().to_string();
            vu.check(
                "refused",
                error.starts_with(&format!("the request's cookie cannot be sent: `{name}`: ")),
            );
        }
        Ok(())
    };
    let outcome = run_at(&server, scenario("s", flow).iterations_per_vu(1, 1));
    let failed: Vec<_> = outcome.load().checks.iter().filter(|(_, check)| check.fails > 0).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(told(&server, "cookie"), pairs(&[("/set", "a=1"), ("/one", "a=1"), ("/none", "")]));
}

/// A page of letters, compressed as the path says whatever is accepted; `/gzip-cut` ends early.
fn compressing(asked: &Asked) -> Answer {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&vec![b'x'; 100_000]).unwrap();
    let mut body = encoder.finish().unwrap();
    let coding = asked.uri().path().trim_start_matches('/').split('-').next().unwrap();
    if asked.uri().path().ends_with("cut") {
        body.truncate(body.len() / 2);
    }
    http::Response::builder().header("content-encoding", coding).body(body.into()).unwrap()
}

#[test]
fn a_compressed_body_is_decompressed_when_asked_for_and_counted_as_it_came() {
    let server = Answering::start(compressing);
    let flow = async |vu: &Vu| -> Result {
        let page = vu.get("/gzip").accept_compressed().send().await?;
        vu.check("whole", page.bytes().len() == 100_000 && page.header("content-encoding") == Some("gzip"));
        let raw = vu.get("/gzip").name("raw").send().await?;
        vu.check("raw", raw.bytes().starts_with(b"\x1f\x8b"));
        let own =
            vu.get("/gzip").name("own").header("accept-encoding", "gzip").accept_compressed().send().await?;
        vu.check("own header", own.bytes() == raw.bytes());
        let unknown = vu.get("/other").accept_compressed().send().await?;
        vu.check("unknown", unknown.bytes() == raw.bytes());
        let discarded = vu.get("/gzip").name("discarded").accept_compressed().discard_body().send().await?;
        vu.check("discarded", discarded.bytes().is_empty());
        let error = vu.get("/gzip-cut").accept_compressed().send().await.unwrap_err().chain();
        vu.check("cut", error.starts_with("GET /gzip-cut: body: the body is not whole gzip"));
        Ok(())
    };
    let outcome = run_at(&server, scenario("s", flow).iterations_per_vu(1, 1));
    let failed: Vec<_> = outcome.load().checks.iter().filter(|(_, check)| check.fails > 0).collect();
    assert!(failed.is_empty() && outcome.load().checks.len() == 6, "{failed:?}");
    let received = |name| outcome.step(StepKind::Request, name).bytes_received;
    assert!(received("raw") > 0 && received("raw") < 1000);
    for name in ["GET /gzip", "own", "GET /other", "discarded"] {
        assert_eq!(received(name), received("raw"), "{name}");
    }
    let cut = outcome.step(StepKind::Request, "GET /gzip-cut");
    assert_eq!((cut.errors, cut.error_types["body"], cut.latency.count()), (1, 1, 0));
    let all = "gzip, deflate, br, zstd";
    let accepted: Vec<_> = told(&server, "accept-encoding").into_iter().map(|(_, value)| value).collect();
    assert_eq!(accepted, [all, "", "gzip", all, all, all]);
}

#[test]
fn a_scenario_accepts_compressed_bodies_of_all_its_requests() {
    let server = Answering::start(compressing);
    let flow = async |vu: &Vu| -> Result {
        vu.check("whole", vu.get("/gzip").send().await?.bytes().len() == 100_000);
        let plain = vu.get("/gzip").header("accept-encoding", "identity").send().await?;
        vu.check("opted out", plain.bytes().len() < 1000);
        Ok(())
    };
    let outcome = run_at(&server, scenario("s", flow).accept_compressed().iterations_per_vu(1, 1));
    assert!(outcome.load().checks.values().all(|check| (check.passes, check.fails) == (1, 0)));
}
