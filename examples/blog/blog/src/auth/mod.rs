//! The auth service: passwords and sessions. Accounts it leaves to the user service.

mod passwords;
mod sessions;
mod tokens;

use std::path::PathBuf;

use blog_proto::{
    auth::v1::{
        AuthenticateRequest, AuthenticateResponse, LoginRequest, LogoutRequest, LogoutResponse,
        RefreshRequest, RegisterRequest, RegisterResponse, TokenPair,
        auth_server::{Auth, AuthServer},
    },
    user::v1::{CreateRequest, FindCredentialsRequest, users_client::UsersClient},
};
use clap::Parser;
use tonic::{Code, Request, Response, Status, async_trait, transport::Uri};
use tracing::warn;

use self::{passwords::Passwords, sessions::Sessions, tokens::Tokens};
use crate::{
    error::Error,
    grpc::{self, Peer},
};

#[derive(Debug, Parser)]
#[command(version, about = "The blog's auth service")]
pub struct Args {
    /// Port to listen on, on 127.0.0.1; 0 for any free one
    #[arg(long)]
    port: u16,
    /// Database file
    #[arg(long, value_name = "PATH")]
    db: PathBuf,
    /// Address of the user service
    #[arg(long, value_name = "URL")]
    user: Uri,
    /// The logarithm of bcrypt's rounds
    #[arg(long, env = "BCRYPT_COST", default_value_t = 12, value_parser = clap::value_parser!(u32).range(4..=31))]
    bcrypt_cost: u32,
    /// Key of the tokens' signatures, at least 32 bytes; a random one when it is not given, which ends
    /// all sessions with the process
    #[arg(long, env = "JWT_SECRET", hide_env_values = true)]
    jwt_secret: Option<String>,
}

pub async fn serve(args: Args) -> anyhow::Result<()> {
    let service = AuthService {
        passwords: Passwords::new(args.bcrypt_cost).await?,
        sessions: Sessions::open(&args.db).await?,
        tokens: Tokens::new(args.jwt_secret.as_deref())?,
        users: UsersClient::new(grpc::peer(args.user)),
    };
    grpc::serve(args.port, AuthServer::new(service)).await
}

/// Says no more than this, so that it cannot be asked who has an account.
const WRONG_CREDENTIALS: Error = Error::Unauthenticated("wrong e-mail address or password");

#[derive(Debug)]
struct AuthService {
    passwords: Passwords,
    sessions: Sessions,
    tokens: Tokens,
    users: UsersClient<Peer>,
}

impl AuthService {
    async fn register(&self, email: String, password: String) -> Result<RegisterResponse, Error> {
        let email = valid_email(&email)?;
        let password_hash = self.passwords.hash(password).await?;
        let user = self.users.clone().create(CreateRequest { email, password_hash }).await?.into_inner();
        Ok(RegisterResponse { user_id: user.id, email: user.email, created_at: user.created_at })
    }

    async fn login(&self, email: &str, password: String) -> Result<TokenPair, Error> {
        let email = normalise_email(email);
        let found = match self.users.clone().find_credentials(FindCredentialsRequest { email }).await {
            Ok(found) => Some(found.into_inner()),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => return Err(status.into()),
        };
        let (user_id, hash) = found.map(|found| (found.user_id, found.password_hash)).unzip();
        let right = self.passwords.verify(password, hash).await?;
        match user_id {
            Some(user_id) if right => self.grant(user_id, tokens::random_id()?).await,
            _ => Err(WRONG_CREDENTIALS),
        }
    }

    async fn refresh(&self, token: &str) -> Result<TokenPair, Error> {
        let token = self.tokens.verify_refresh(token)?;
        if self.sessions.use_up(&token.id).await? {
            return self.grant(token.user_id, token.session).await;
        }
        // One of the two that hold this token stole it, and nobody can tell which.
        let ended = self.sessions.end(&token.session).await?;
        if ended > 0 {
            warn!(user_id = token.user_id, "a refresh token was used twice: its session is over");
        }
        Err(Error::Unauthenticated("this refresh token has been used"))
    }

    async fn logout(&self, token: &str) -> Result<(), Error> {
        let token = self.tokens.verify_refresh(token)?;
        self.sessions.end(&token.session).await?;
        Ok(())
    }

    async fn grant(&self, user_id: i64, session: String) -> Result<TokenPair, Error> {
        let access = self.tokens.issue_access(user_id)?;
        let (refresh, issued) = self.tokens.issue_refresh(user_id, session)?;
        self.sessions.insert(&issued).await?;
        Ok(TokenPair { user_id, access, refresh })
    }
}

/// Mail is delivered whatever the case in practice, so that accounts do not differ in it alone.
fn normalise_email(email: &str) -> String {
    email.trim().to_lowercase()
}

fn valid_email(email: &str) -> Result<String, Error> {
    let email = normalise_email(email);
    let valid = email.len() <= 254
        && email.split_once('@').is_some_and(|(user, domain)| !user.is_empty() && !domain.is_empty());
    if valid { Ok(email) } else { Err(Error::Invalid("not an e-mail address")) }
}

#[async_trait]
impl Auth for AuthService {
    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let RegisterRequest { email, password } = request.into_inner();
        Ok(Response::new(self.register(email, password).await?))
    }

    async fn login(&self, request: Request<LoginRequest>) -> Result<Response<TokenPair>, Status> {
        let LoginRequest { email, password } = request.into_inner();
        Ok(Response::new(self.login(&email, password).await?))
    }

    async fn refresh(&self, request: Request<RefreshRequest>) -> Result<Response<TokenPair>, Status> {
        Ok(Response::new(self.refresh(&request.into_inner().refresh).await?))
    }

    async fn logout(&self, request: Request<LogoutRequest>) -> Result<Response<LogoutResponse>, Status> {
        self.logout(&request.into_inner().refresh).await?;
        Ok(Response::new(LogoutResponse {}))
    }

    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        let user_id = self.tokens.verify_access(&request.into_inner().access)?;
        Ok(Response::new(AuthenticateResponse { user_id }))
    }
}
