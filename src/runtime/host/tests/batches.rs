//! Requests beside each other.

use super::*;

#[test]
fn results_come_in_the_order_of_the_requests_whichever_ends_first() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        let results = vu
            .batch([
                vu.get("/delay/{ms}").path("ms", 50),
                vu.get("/status/{code}").path("code", 404),
                vu.get("/users/{id}"),
                vu.get("/drop"),
                vu.get("/status/{code}").path("code", 201),
            ])
            .await;
        let told: Vec<String> = results
            .iter()
            .map(|result| match result {
                Ok(response) => response.status().to_string(),
                Err(error) => error.to_string(),
            })
            .collect();
        let missing = "`/users/{id}` has a placeholder that nothing fills in: call .path(\"id\", …)";
        vu.check("in order", told == ["200", "404", missing, "GET /drop: reset", "201"]);
        vu.check("nothing", vu.batch([]).await.is_empty());
        Ok(())
    };
    let outcome = run(&server, scenario("s", flow).iterations_per_vu(2, 3));
    assert_eq!(outcome.load().checks.values().map(|check| check.passes).collect::<Vec<_>>(), [6, 6]);
    // A connection that is dropped was kept from the iteration before, but in the first.
    let requests = outcome.load().requests();
    assert_eq!((requests.count, requests.retries, server.seen().requests), (24, 4, 28));
    assert_eq!(outcome.step(StepKind::Request, "GET /status/{code}").status, [(201, 6), (404, 6)].into());
}

#[test]
fn so_many_are_on_their_way_at_once_in_all_and_to_one_host() {
    type Limits = fn(crate::Batch<'_>) -> crate::Batch<'_>;
    let unlimited: Limits = |batch| batch.at_most(100).at_most_per_host(100);
    for (limits, to_one, in_all) in [
        ((|batch| batch) as Limits, 6, 20),
        (|batch| batch.at_most(3), 3, 3),
        (|batch| batch.at_most_per_host(2), 2, 10),
        (|batch| batch.at_most(0), 1, 1),
        (|batch| batch.at_most_per_host(9).at_most(100), 9, 45),
        (unlimited, 12, 60),
    ] {
        let servers: Arc<Vec<Server>> = Arc::new((0..5).map(|_| Server::start()).collect());
        let others = servers.clone();
        let flow = async move |vu: &Vu| -> Result {
            // Round and round the servers, twelve times.
            let urls = (0..12).flat_map(|_| others.iter().map(|server| format!("{}/delay/5", server.url())));
            let requests: Vec<_> = urls.map(|url| vu.get(&url).name("asset")).collect();
            for result in limits(vu.batch(requests)).await {
                result?.expect_status(200)?;
            }
            Ok(())
        };
        let outcome = run(&servers[0], scenario("s", flow).iterations_per_vu(1, 1));
        assert_eq!(outcome.load().failed_iterations, 0, "{:?}", outcome.load().errors.commonest());
        let seen: Vec<_> = servers.iter().map(Server::seen).collect();
        // A connection carries one request at a time and is used again: there are as many as requests at once.
        let connections: Vec<_> = seen.iter().map(|seen| seen.connections).collect();
        assert!(connections.iter().all(|count| *count <= to_one), "{connections:?}");
        assert!(connections.iter().sum::<u64>() >= in_all.min(5 * to_one), "{connections:?}");
        assert_eq!(seen.iter().map(|seen| seen.requests).sum::<u64>(), 60);
        assert_eq!(outcome.step(StepKind::Request, "asset").count, 60);
    }
}
