//! A shop to put load on. Everything is in memory; a sleep stands for the database that a real one would ask.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

#[derive(Debug, Clone, Serialize)]
struct Product {
    id: u64,
    name: String,
    price_cents: u64,
    in_stock: bool,
}

#[derive(Debug)]
struct Shop {
    products: Vec<Product>,
    /// Passwords by e-mail address.
    accounts: HashMap<String, String>,
    /// E-mail addresses by token.
    tokens: Mutex<HashMap<String, String>>,
    orders: AtomicU64,
}

#[derive(Debug, Deserialize)]
struct Login {
    email: String,
    password: String,
}

#[derive(Debug, Serialize)]
struct Session {
    token: String,
}

#[derive(Debug, Deserialize)]
struct Order {
    product: u64,
    quantity: u64,
    recipient: String,
    street: String,
}

#[derive(Debug, Serialize)]
struct Ordered {
    id: u64,
    total_cents: u64,
}

type Shared = State<Arc<Shop>>;

async fn ask_the_database(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

async fn products(State(shop): Shared) -> Json<Vec<Product>> {
    ask_the_database(60).await;
    Json(shop.products.clone())
}

async fn product(State(shop): Shared, Path(id): Path<u64>) -> Result<Json<Product>, StatusCode> {
    ask_the_database(80).await;
    let product = shop.products.iter().find(|product| product.id == id);
    product.cloned().map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn login(State(shop): Shared, Json(login): Json<Login>) -> Result<Json<Session>, StatusCode> {
    ask_the_database(40).await;
    if shop.accounts.get(&login.email) != Some(&login.password) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let mut tokens = shop.tokens.lock().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let token = format!("token-{}", tokens.len() + 1);
    tokens.insert(token.clone(), login.email);
    Ok(Json(Session { token }))
}

async fn order(
    State(shop): Shared,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Ordered>), StatusCode> {
    ask_the_database(100).await;
    let token = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let is_known = |token: &str| shop.tokens.lock().is_ok_and(|tokens| tokens.contains_key(token));
    if !token.is_some_and(is_known) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    if order.recipient.is_empty() || order.street.is_empty() || order.quantity == 0 {
        return Err(StatusCode::UNPROCESSABLE_ENTITY);
    }
    let product = shop.products.iter().find(|product| product.id == order.product);
    match product {
        None => Err(StatusCode::NOT_FOUND),
        Some(product) if !product.in_stock => Err(StatusCode::CONFLICT),
        Some(product) => {
            let id = shop.orders.fetch_add(1, Ordering::Relaxed) + 1;
            let total_cents = product.price_cents * order.quantity;
            Ok((StatusCode::CREATED, Json(Ordered { id, total_cents })))
        }
    }
}

/// The lines after the first, each an e-mail address and a password.
fn accounts(path: &str) -> Result<HashMap<String, String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    text.lines()
        .skip(1)
        .map(|line| {
            let (email, password) = line.split_once(',').with_context(|| format!("{path}: no comma"))?;
            Ok((email.to_owned(), password.to_owned()))
        })
        .collect()
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, accounts_file] = arguments.as_slice() else {
        anyhow::bail!("usage: shop PORT ACCOUNTS");
    };
    let accounts = accounts(accounts_file)?;
    ensure!(!accounts.is_empty(), "{accounts_file} has no accounts");
    let described = |id: u64| Product {
        id,
        name: format!("Product {id}"),
        price_cents: 199 + 350 * id,
        // One of ten is sold out.
        in_stock: !id.is_multiple_of(10),
    };
    let shop = Shop {
        products: (1..=20).map(described).collect(),
        accounts,
        tokens: Mutex::default(),
        orders: AtomicU64::new(0),
    };
    let app = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/products", get(products))
        .route("/products/{id}", get(product))
        .route("/login", post(login))
        .route("/orders", post(order))
        .with_state(Arc::new(shop));
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, app).await?;
    Ok(())
}
