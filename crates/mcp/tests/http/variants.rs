//! Servers over HTTP that get headers of whoever calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use pentad_mcp::{ByCaller, Definition, Endpoint, Reach, Values, Way};
use pentad_model::{Refusal, RefusalKind};
use pentad_program::{Environment, ToolSource as _};

use crate::site::{Kind, Site};
use crate::support::{Bench, config, document, end, tool_call};

/// The site with the `KEY` of its callers in a header.
struct WithKey(String);

impl ByCaller for WithKey {
    fn definition(&self) -> Definition {
        Definition::Url {
            url: self.0.clone(),
            headers: vec!["x-key".to_owned()],
        }
    }

    fn values(&self, environment: Option<&Environment>) -> Values {
        let sent = environment.and_then(|environment| environment.0.get(std::ffi::OsStr::new("KEY")));
        let value = sent.map_or("of this process", |value| value.to_str().unwrap());
        Values::from([("KEY".to_owned(), value.to_owned())])
    }

    fn reach(&self, values: &Values) -> Result<Reach, Refusal> {
        let headers = BTreeMap::from([("X-Key".to_owned(), values["KEY"].clone())]);
        Endpoint::new(&self.0, &headers)
            .map(Reach::Url)
            .map_err(|error| Refusal::new(RefusalKind::Unavailable, "site", error.to_string()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_with_other_keys_have_sessions_of_their_own() {
    for kind in [Kind::Sessions, Kind::Modern] {
        let site = Site::start(kind).await;
        let mut config = config(&site, &[]);
        config.reach = Way::ByCaller(Arc::new(WithKey(site.url())));
        let bench = Bench::of(config);
        let look = document(&bench.server, "look").await;
        for key in ["key-of-ada", "key-of-bob", "key-of-ada"] {
            let mut call = tool_call(Arc::clone(&look), key);
            let sent = Environment([("KEY".into(), key.into())].into());
            call.attendance.environment = Some(Arc::new(sent));
            bench.server.call(call).await.unwrap();
        }
        assert_eq!(bench.server.status().copies, 3);
        let seen = site.seen();
        let mut sessions = BTreeMap::new();
        for request in seen.iter().filter(|request| request.call() == "tools/call") {
            let key = request.header("x-key").unwrap();
            assert_eq!(request.body["params"]["arguments"]["text"], key);
            let session = request.header("mcp-session-id").map(str::to_owned);
            assert_eq!(*sessions.entry(key).or_insert_with(|| session.clone()), session);
        }
        assert_eq!(sessions.len(), 2);
        end(&bench.server).await;
    }
}
