//! A small MCP server on raw JSON lines, made to misbehave on request.
//!
//! It uses no MCP library on purpose: a library would refuse most of what the tests need to see. Every start, effect,
//! cancellation and end is a line of the `--witness` file, so that a test can count instead of guess.

mod asking;
mod options;
mod replies;
mod tools;
mod wire;

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::options::{Options, Protocol};
use crate::wire::Wire;

/// Everything the threads of one server share.
struct Server {
    options: Options,
    wire: Wire,
    /// Cancellation flags of the calls in flight, by the JSON text of their request id.
    in_flight: Mutex<HashMap<String, Arc<AtomicBool>>>,
    /// Tools added while running.
    added: Mutex<Vec<String>>,
    /// The request id of an open `subscriptions/listen`, if any.
    subscription: Mutex<Option<Value>>,
    /// Replies to the server's own requests, by their id.
    answers: Mutex<HashMap<String, Value>>,
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("fixture-mcp-server: {message}");
            return ExitCode::from(2);
        }
    };
    if options.ignore_term {
        ignore_term();
    }
    options.witness(&format!("start {}", std::process::id()));
    if let Some(text) = &options.stderr {
        eprintln!("{text}");
    }
    if let Some(code) = options.exit_at_once {
        return ExitCode::from(code);
    }
    std::thread::sleep(options.start_delay);
    let server = Arc::new(Server {
        wire: Wire::default(),
        in_flight: Mutex::default(),
        added: Mutex::default(),
        subscription: Mutex::default(),
        answers: Mutex::default(),
        options,
    });
    server.wire.garbage(server.options.garbage_at_start);
    if server.options.flood {
        server.wire.flood();
    }
    serve(&server);
    server.options.witness("eof");
    if server.options.ignore_eof {
        loop {
            std::thread::park();
        }
    }
    ExitCode::SUCCESS
}

fn serve(server: &Arc<Server>) {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            server.options.witness("unreadable line");
            continue;
        };
        if server.options.hang_on_start {
            continue;
        }
        receive(server, message);
    }
}

fn receive(server: &Arc<Server>, message: Value) {
    let method = message
        .get("method")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let Some(id) = message.get("id").cloned() else {
        notified(server, &method, &message);
        return;
    };
    if method.is_empty() {
        lock(&server.answers).insert(id.to_string(), message);
        return;
    }
    server.wire.garbage(server.options.garbage);
    let params = message.get("params").cloned().unwrap_or(Value::Null);
    match method.as_str() {
        "initialize" if server.options.protocol == Protocol::Modern => {
            server.wire.error(&id, -32601, "initialize");
        }
        "initialize" => server.wire.result(&id, replies::initialize(&params)),
        "server/discover" if server.options.protocol == Protocol::Modern => {
            server.wire.result(&id, replies::discover());
        }
        "ping" => server.wire.result(&id, json!({})),
        "tools/list" => {
            server.options.witness("tools/list");
            server.wire.raw_result(&id, &replies::tools_list(server, &params));
        }
        "tools/call" => call(server, id, params),
        "resources/read" => match params.get("uri").and_then(Value::as_str) {
            Some("memo://one") => server.wire.result(&id, replies::memo()),
            _ => server.wire.error(&id, -32002, "no such resource"),
        },
        "subscriptions/listen" => {
            *lock(&server.subscription) = Some(id.clone());
            server.wire.notify(
                "notifications/subscriptions/acknowledged",
                json!({
                    "notifications": params.get("notifications").cloned().unwrap_or_else(|| json!({})),
                    "_meta": {"io.modelcontextprotocol/subscriptionId": id},
                }),
            );
        }
        _ => server.wire.error(&id, -32601, &method),
    }
}

fn notified(server: &Arc<Server>, method: &str, message: &Value) {
    if method == "notifications/cancelled" {
        let id = message
            .pointer("/params/requestId")
            .map(Value::to_string)
            .unwrap_or_default();
        server.options.witness(&format!("cancelled {id}"));
        if let Some(flag) = lock(&server.in_flight).get(&id) {
            flag.store(true, Ordering::SeqCst);
        }
    }
}

fn call(server: &Arc<Server>, id: Value, params: Value) {
    let cancelled = Arc::new(AtomicBool::new(false));
    lock(&server.in_flight).insert(id.to_string(), Arc::clone(&cancelled));
    let shared = Arc::clone(server);
    std::thread::spawn(move || {
        tools::run(&shared, &id, &params, &cancelled);
        lock(&shared.in_flight).remove(&id.to_string());
        // The output is flushed line by line; this one only ends the thread in order.
        let _flushed = std::io::stdout().flush();
    });
}

/// Takes a lock even after a panic elsewhere: a fixture has nothing to protect.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[allow(unsafe_code)]
fn ignore_term() {
    // SAFETY: SIG_IGN installs no handler; the call only changes the disposition of two signals of this process.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    }
}
