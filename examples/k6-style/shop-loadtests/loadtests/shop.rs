//! What a k6 script usually has, in Rust: stages, scenarios side by side, checks, thresholds by tag, metrics of one's
//! own, rows of a CSV file, and invented data.

use fake::Fake as _;
use fake::faker::address::en::StreetName;
use fake::faker::name::en::Name;
use loadtest::prelude::*;
use serde::{Deserialize, Serialize};

/// A row of `data/accounts.csv`.
#[derive(Debug, Serialize, Deserialize)]
struct Account {
    email: String,
    password: String,
}

/// Each user signs in as somebody else: k6's `SharedArray` with an index of the user's own.
static ACCOUNTS: Feeder<Account> = csv("data/accounts.csv").unique();

#[derive(Debug, Deserialize)]
struct Product {
    id: u64,
    in_stock: bool,
}

#[derive(Debug, Deserialize)]
struct Session {
    token: String,
}

#[derive(Debug, Serialize)]
struct Order {
    product: u64,
    quantity: u64,
    recipient: String,
    street: String,
}

#[derive(Debug, Deserialize)]
struct Ordered {
    total_cents: u32,
}

/// Somebody looks around: the list, and two products of it.
async fn browse(vu: &Vu) -> Result {
    let list = vu.get("/products").send().await?;
    vu.check("the list is there", list.status() == 200);
    let products: Vec<Product> = list.json()?;
    for _ in 0..2 {
        let at = (0..products.len()).fake::<usize>();
        let product = vu.get("/products/{id}").path("id", products[at].id).send().await?;
        vu.check("the product is there", product.status() == 200);
    }
    Ok(())
}

async fn sign_in(vu: &Vu) -> Result<String> {
    let account = ACCOUNTS.next(vu)?;
    let session = vu.post("/login").json(account).send().await?.expect_status(200)?;
    Ok(session.json::<Session>()?.token)
}

/// Somebody who has signed in orders something, to an address that `fake` invents.
async fn buy(vu: &Vu, token: &str) -> Result {
    vu.step("choose and order", async {
        let products: Vec<Product> = vu.get("/products").send().await?.json()?;
        let product = &products[(0..products.len()).fake::<usize>()];
        vu.rate("in_stock").add(product.in_stock);
        let order = Order {
            product: product.id,
            quantity: (1..4).fake(),
            recipient: Name().fake(),
            street: StreetName().fake(),
        };
        // That something is sold out is no error of the shop.
        let response =
            vu.post("/orders").bearer(token).json(&order).expected_status([201, 409]).send().await?;
        vu.check("ordered or sold out", [201, 409].contains(&response.status()));
        if response.status() == 201 {
            vu.counter("orders").add(1);
            vu.trend("order_value_eur").record(f64::from(response.json::<Ordered>()?.total_cents) / 100.0);
        }
        Ok(())
    })
    .await?;
    vu.sleep(millis(100)..millis(300)).await;
    Ok(())
}

fn main() -> loadtest::ExitCode {
    // An open model: people come, whether or not the shop is fast.
    let browsing = scenario("browse", browse)
        .ramping_arrival_rate(5, secs(1), [stage(secs(4), 20), stage(secs(8), 20), stage(secs(3), 0)])
        .max_vus(40)
        .tag("kind", "reading")
        .threshold(r#"http_req_duration{step:"GET /products/{id}"}"#, "p(95)<500ms")
        .threshold("http_req_failed{kind:reading}", "rate<0.01")
        .threshold("dropped_iterations", limit("count<5").allow_empty());

    // A closed one: so many customers, each with a basket.
    let buying = stateful("buy")
        .vu_setup(async |vu: &Vu, (): &()| sign_in(vu).await)
        .iteration(async |vu: &Vu, token: &mut String, (): &()| buy(vu, token).await)
        .ramping_vus([stage(secs(4), 10), stage(secs(8), 10), stage(secs(3), 0)])
        .data(&ACCOUNTS)
        .counter("orders")
        .rate("in_stock")
        .trend("order_value_eur")
        .threshold("checks", limit("rate>0.99").abort_on_fail().delay_abort_eval(secs(3)))
        .threshold("http_req_duration{status:201}", "p(95)<800ms")
        .threshold("orders", "count>=20")
        .threshold("in_stock", "rate>0.5");

    loadtest::main([browsing, buying])
}
