//! A person with a home and the files of a client in it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pentad_import::client::places;
use pentad_import::{Client, ClientFile, Plan, PlanError, Planner, Scope, Surroundings};
use pentad_keeper::Home;

pub struct Person {
    dir: tempfile::TempDir,
    pub home: Home,
    pub around: Surroundings,
    pub own: PathBuf,
}

impl Person {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let home_dir = root.join("ada");
        let folder = home_dir.join("work");
        let own = root.join("bin/pentad");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(&own, "").unwrap();
        let home = Home::locate(Some(&home_dir.join(".pentad")), None, None).unwrap();
        home.prepare().unwrap();
        let path = own.parent().unwrap().to_str().unwrap().to_owned();
        let around = Surroundings {
            home_dir,
            folder,
            variables: [("PATH".to_owned(), path)].into(),
            macos: false,
        };
        Self {
            dir,
            home,
            around,
            own,
        }
    }

    /// Puts a fixture where its client keeps it.
    pub fn fixture(&self, client: Client, scope: Scope) -> PathBuf {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(client.word());
        let place = places(client, scope, &self.around)
            .into_iter()
            .find(|place| fixtures.join(place.file_name().unwrap()).exists())
            .unwrap();
        let text = fs::read_to_string(fixtures.join(place.file_name().unwrap())).unwrap();
        let text = text.replace("@FOLDER@", self.around.folder.to_str().unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, text).unwrap();
        place
    }

    pub fn planner(&self, trust: bool) -> Planner<'_> {
        Planner {
            home: &self.home,
            around: &self.around,
            own: &self.own,
            trust,
        }
    }

    pub fn plan(&self, client: Client) -> Result<Plan, PlanError> {
        let file = ClientFile::of_client(client, Scope::User, &self.around)?;
        self.planner(false).plan(file)
    }

    /// Hides where the test runs.
    pub fn hide(&self, text: &str) -> String {
        let root = self.around.home_dir.parent().unwrap().to_str().unwrap();
        text.replace(root, "")
    }

    pub fn config(&self) -> String {
        fs::read_to_string(self.home.config_file()).unwrap_or_default()
    }

    pub fn secrets(&self) -> BTreeMap<String, String> {
        let secrets = pentad_keeper::Secrets::of(&self.home);
        let names = secrets.list().unwrap();
        names
            .into_iter()
            .map(|name| {
                (
                    name.to_string(),
                    secrets.get(&name).unwrap().unwrap().reveal().to_owned(),
                )
            })
            .collect()
    }
}
