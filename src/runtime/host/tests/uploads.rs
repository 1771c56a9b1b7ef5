//! Files and forms, as a server reads them.

use std::convert::Infallible;

use futures_util::stream;

use super::answering::{Answer, Answering, Asked};
use super::*;
use crate::Form;

fn ok(_: &Asked) -> Answer {
    http::Response::new("ok".into())
}

/// Name, file name, content type and content of each part.
type Part = (String, Option<String>, Option<String>, Vec<u8>);

fn parsed(asked: &Asked) -> Vec<Part> {
    let content_type = asked.headers()["content-type"].to_str().unwrap();
    let boundary = multer::parse_boundary(content_type).unwrap();
    let body = stream::once(std::future::ready(Ok::<_, Infallible>(asked.body().clone())));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut form = multer::Multipart::new(body, boundary);
        let mut parts = Vec::new();
        while let Some(field) = form.next_field().await.unwrap() {
            let name = field.name().unwrap().to_owned();
            let file = field.file_name().map(str::to_owned);
            let content_type = field.content_type().map(ToString::to_string);
            parts.push((name, file, content_type, field.bytes().await.unwrap().to_vec()));
        }
        parts
    })
}

fn run_at(server: &Answering, scenario: Scenario) -> Outcome {
    let scenarios = vec![scenario];
    let plan = RunPlan { base_url: Some(server.url()), ..plan(None, &scenarios) };
    run_with(scenarios, plan, &StopFlag::default())
}

#[test]
fn a_form_arrives_part_by_part_as_it_was_made() {
    let server = Answering::start(ok);
    let flow = async |vu: &Vu| -> Result {
        let form = Form::new()
            .text("id", vu.id())
            .text("empty", "")
            .file("manifest", "Cargo.toml")
            .file_of_type("rules", "clippy.toml", "application/toml")
            .bytes("raw \"1\"\r\n", "a\"b.bin", "image/png", vec![0, 13, 10, 45, 45, 255]);
        vu.post("/form").header("content-type", "text/plain").multipart(form.clone()).send().await?;
        vu.post("/form").json(&1).multipart(form).send().await?;
        vu.post("/none").multipart(Form::new()).send().await?;
        Ok(())
    };
    let outcome = run_at(&server, scenario("s", flow).iterations_per_vu(1, 1));
    assert_eq!(outcome.load().failed_iterations, 0, "{:?}", outcome.load().errors.commonest());
    let any = "application/octet-stream";
    let part = |name: &str, file: Option<(&str, &str)>, content: &[u8]| {
        let (file, content_type) = file.map(|(name, kind)| (name.to_owned(), kind.to_owned())).unzip();
        (name.to_owned(), file, content_type, content.to_vec())
    };
    let wanted = [
        part("id", None, b"1"),
        part("empty", None, b""),
        part("manifest", Some(("Cargo.toml", any)), include_bytes!("../../../../Cargo.toml")),
        part("rules", Some(("clippy.toml", "application/toml")), include_bytes!("../../../../clippy.toml")),
        part("raw %221%22%0D%0A", Some(("a%22b.bin", "image/png")), &[0, 13, 10, 45, 45, 255]),
    ];
    let asked = server.asked();
    assert_eq!(
        (parsed(&asked[0]), parsed(&asked[1]), parsed(&asked[2])),
        (wanted.to_vec(), wanted.to_vec(), vec![])
    );
    assert_ne!(
        asked[0].headers()["content-type"],
        asked[1].headers()["content-type"],
        "boundaries are drawn"
    );
    let length =
        |asked: &Asked| asked.headers()["content-length"].to_str().unwrap().parse::<usize>().unwrap();
    assert!(asked.iter().all(|asked| length(asked) == asked.body().len()));
    let sent = outcome.load().requests().bytes_sent;
    assert_eq!(sent, asked.iter().map(|asked| asked.body().len() as u64).sum::<u64>());
}

#[test]
fn a_file_is_read_once_for_all_users_and_sent_as_it_is() {
    let server = Answering::start(ok);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("upload.bin");
    let content: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
    std::fs::File::create(&path).and_then(|mut file| std::io::Write::write_all(&mut file, &content)).unwrap();
    let flow = async move |vu: &Vu| -> Result {
        vu.put("/raw").body_file(&path).send().await?;
        // It is not looked at again, by nobody.
        let _ = std::fs::remove_file(&path);
        vu.put("/typed").header("content-type", "image/png").body_file(&path).send().await?;
        vu.put("/body").body_file(&path).body("other").send().await?;
        Ok(())
    };
    let outcome = run_at(&server, scenario("s", flow).shared_iterations(4, 40));
    assert_eq!(outcome.load().failed_iterations, 0, "{:?}", outcome.load().errors.commonest());
    let asked = server.asked();
    assert_eq!(asked.len(), 120);
    for asked in &asked {
        let (content_type, body): (Option<&str>, &[u8]) = match asked.uri().path() {
            "/raw" => (Some("application/octet-stream"), &content),
            "/typed" => (Some("image/png"), &content),
            _ => (None, b"other"),
        };
        assert_eq!(asked.headers().get("content-type").map(|it| it.to_str().unwrap()), content_type);
        assert!(asked.body() == body, "{}: {} bytes", asked.uri(), asked.body().len());
    }
}

#[test]
fn a_file_that_is_not_there_ends_the_run_and_a_bad_content_type_is_told() {
    let server = Answering::start(ok);
    let flow = async |vu: &Vu| -> Result {
        vu.post("/").multipart(Form::new().file("f", "no/such.png")).send().await?;
        Ok(())
    };
    let outcome = run_at(&server, scenario("s", flow).constant_vus(2, secs(30)));
    assert_eq!(outcome.failure().kind, FailureKind::Configuration);
    let full = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("no/such.png");
    let message = &outcome.failure().message;
    let wanted = format!("cannot read `no/such.png`, which a request sends: {}: ", full.display());
    assert!(message.starts_with(&wanted) && message.len() > wanted.len(), "{message}");
    let flow = async |vu: &Vu| -> Result {
        let form = Form::new().bytes("f", "f.txt", "text/plain\r\nx: y", "content");
        vu.post("/").multipart(form).send().await?;
        Ok(())
    };
    let outcome = run_at(&server, scenario("s", flow).iterations_per_vu(1, 1));
    let wanted = "the request's form cannot be sent: part `f`: \"text/plain\\r\\nx: y\" is no content type";
    assert_eq!(outcome.load().errors.commonest(), Some(wanted));
    assert!(server.asked().is_empty());
}
