//! A scenario whose author has set a `tracing` subscriber keeps it.

use crate::server::Server;
use crate::sink::Sink;
use crate::tool::run;

#[test]
fn a_subscriber_of_the_authors_own_is_kept_and_can_be_joined() {
    for (subscriber, advised, exported) in [("own", true, 0), ("joined", false, 20)] {
        let (server, sink) = (Server::start(), Sink::start());
        let ended = run(&["shape", "--otlp-endpoint", &sink.url(), "--trace", "all"])
            .against(&server.url())
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
            .env("ROBUST_SUBSCRIBER", subscriber)
            .finish();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("my subscriber sees `price`").count(), 20, "{}", ended.stderr);
        let advice = ended.stderr.lines().filter(|line| line.contains("loadtest::tracing_layer()")).count();
        assert_eq!(advice, usize::from(advised), "{subscriber}: {}", ended.stderr);
        let prices = sink.spans("loadtest").into_iter().filter(|span| span.name == "price").count();
        assert_eq!(prices, exported, "{subscriber}");
    }
}
