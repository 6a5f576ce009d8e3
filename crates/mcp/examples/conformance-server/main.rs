//! The server that the official conformance suite asks for: its tools, resources and prompts on our own transport.
//!
//! The suite's scenarios call things that five verbs do not have. What is under test here is everything below them:
//! sessions, streams, headers, revisions. Prints its URL as one line, and ends when its standard input does.
#![allow(missing_docs)]

mod answers;
mod asking;
mod catalogue;
mod changes;
mod reading;
mod rounds;
mod server;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use pentad_mcp::{HttpCaller, HttpLimits, HttpService};
use pentad_model::invocation::Workspace;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::changes::Changes;
use crate::rounds::States;
use crate::server::Fixture;

#[derive(Clone)]
struct Shared {
    service: HttpService<Fixture>,
    local: SocketAddr,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let local = listener.local_addr()?;
    let changes = Changes::default();
    let states = States::new().map_err(std::io::Error::other)?;
    let service = HttpService::with_handler(HttpLimits::default(), move |_, _| {
        Fixture::new(changes.clone(), states.clone())
    });
    let shared = Shared {
        service: service.clone(),
        local,
    };
    println!("http://{local}/mcp");
    let router = Router::new().route("/mcp", any(answer)).with_state(shared);
    tokio::select! {
        served = axum::serve(listener, router).into_future() => served,
        read = async { tokio::io::stdin().read_to_end(&mut Vec::new()).await } => {
            service.end().await;
            read.map(|_| ())
        }
    }
}

/// Judges Host and Origin as the product does before it hands a request over, though more simply.
fn is_ours(headers: &HeaderMap, local: SocketAddr) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let own = [local.to_string(), format!("localhost:{}", local.port())];
    let host_is_ours = text(header::HOST).is_some_and(|host| own.iter().any(|name| name == host));
    let origin_is_ours = text(header::ORIGIN).is_none_or(|origin| {
        own.iter()
            .any(|name| origin.strip_prefix("http://") == Some(name.as_str()))
    });
    host_is_ours && origin_is_ours
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    if !is_ours(request.headers(), shared.local) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let caller = HttpCaller {
        owner: "suite".to_owned(),
        client: None,
        on_behalf_of: None,
        thread: None,
        agent: None,
        workspace: Workspace {
            cwd: "/".into(),
            project_root: None,
            trusted: false,
        },
    };
    shared.service.answer(request, caller).await.map(Body::new)
}
