//! Forms of several parts, with files among them, and whole files as bodies.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::error::RequestError;
use super::files::Files;
use super::transport::Payload;
use crate::sys;

/// What a file is, where nothing else is said.
const ANY_TYPE: &str = "application/octet-stream";

/// A form of several parts (`multipart/form-data`): what browsers send when they upload files. For
/// [`Request::multipart`](crate::Request::multipart).
///
/// ```
/// use loadtest::prelude::*;
/// use loadtest::Form;
///
/// async fn upload(vu: &Vu) -> Result {
///     let form = Form::new()
///         .text("title", "Holidays")
///         .file("photo", "data/beach.jpg")
///         .bytes("notes", "notes.txt", "text/plain", "sunny");
///     vu.post("/albums").multipart(form).send().await?.expect_status(201)?;
///     Ok(())
/// }
/// # let _ = scenario("upload", upload);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a form does nothing until it is sent"]
pub struct Form {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
struct Part {
    name: String,
    /// File name and content type, where the part is a file.
    file: Option<(String, String)>,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Bytes(Bytes),
    File(PathBuf),
}

impl Form {
    /// A form without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a field with a text.
    pub fn text(self, name: &str, text: impl Display) -> Self {
        self.part(name, None, Content::Bytes(text.to_string().into()))
    }

    /// Appends a file under its own name, as `application/octet-stream`. `path` starts from the scenario's package; the file
    /// is read when it is sent first, once for all users of a run, and shared.
    pub fn file(self, name: &str, path: impl AsRef<Path>) -> Self {
        self.file_of_type(name, path, ANY_TYPE)
    }

    /// Appends a file like [`file`](Self::file), with a content type, such as `image/png`.
    pub fn file_of_type(self, name: &str, path: impl AsRef<Path>, content_type: &str) -> Self {
        let path = path.as_ref();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.part(name, Some((file_name, content_type.to_owned())), Content::File(path.to_owned()))
    }

    /// Appends bytes as if they were a file of this name and content type.
    pub fn bytes(self, name: &str, file_name: &str, content_type: &str, bytes: impl Into<Bytes>) -> Self {
        let file = Some((file_name.to_owned(), content_type.to_owned()));
        self.part(name, file, Content::Bytes(bytes.into()))
    }

    fn part(mut self, name: &str, file: Option<(String, String)>, content: Content) -> Self {
        self.parts.push(Part { name: name.to_owned(), file, content });
        self
    }

    /// Why the form cannot be sent.
    pub(super) fn invalid(&self) -> Option<String> {
        let is_bad =
            |content_type: &str| content_type.is_empty() || content_type.contains(|c: char| c.is_control());
        self.parts.iter().find_map(|part| {
            let (_, content_type) = part.file.as_ref().filter(|(_, content_type)| is_bad(content_type))?;
            Some(format!("part `{}`: {content_type:?} is no content type", part.name))
        })
    }

    async fn body(&self, boundary: &str, files: &Files) -> Result<Vec<Bytes>, RequestError> {
        let mut pieces = Vec::with_capacity(2 * self.parts.len() + 1);
        let mut before = "";
        for part in &self.parts {
            let mut head = format!(
                "{before}--{boundary}\r\ncontent-disposition: form-data; name=\"{}\"",
                quoted(&part.name)
            );
            if let Some((file_name, content_type)) = &part.file {
                head += &format!("; filename=\"{}\"\r\ncontent-type: {content_type}", quoted(file_name));
            }
            head += "\r\n\r\n";
            pieces.push(head.into());
            pieces.push(match &part.content {
                Content::Bytes(bytes) => bytes.clone(),
                Content::File(path) => read(files, path).await?,
            });
            before = "\r\n";
        }
        pieces.push(format!("{before}--{boundary}--\r\n").into());
        Ok(pieces)
    }
}

/// A body that is put together when it is sent.
#[derive(Debug, Clone)]
pub(super) enum Upload {
    File(PathBuf),
    Form { form: Form, boundary: String },
}

impl Upload {
    pub(super) fn form(form: Form) -> Self {
        // 128 bits by chance: no content has them.
        Self::Form { form, boundary: format!("loadtest-{:032x}", fastrand::u128(..)) }
    }

    /// Says what the body is; the boundary of a form has to be told, whatever the author calls it.
    pub(super) fn announce(&self, headers: &mut HeaderMap) {
        match self {
            Self::File(_) => {
                headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(ANY_TYPE));
            }
            Self::Form { boundary, .. } => {
                let content_type = format!("multipart/form-data; boundary={boundary}");
                headers.insert(CONTENT_TYPE, HeaderValue::try_from(content_type).expect("visible letters"));
            }
        }
    }

    pub(super) async fn body(&self, files: &Files) -> Result<Payload, RequestError> {
        match self {
            Self::File(path) => Ok(read(files, path).await?.into()),
            Self::Form { form, boundary } => Ok(Payload::of_pieces(form.body(boundary, files).await?)),
        }
    }
}

async fn read(files: &Files, path: &Path) -> Result<Bytes, RequestError> {
    files.read(path).await.map_err(|why| RequestError::File {
        path: path.to_owned(),
        full: sys::file::in_package(path),
        why,
    })
}

/// As browsers write names.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
