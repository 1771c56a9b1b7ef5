//! A scenario's code with its types erased, so that the engine can hold any.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;

use super::Vu;
use crate::runtime::error::Result;

/// What the setup made, for all users.
pub(crate) type Shared = Arc<dyn Any + Send + Sync>;
/// What one user keeps between its iterations.
pub(crate) type UserState = Box<dyn Any>;

/// The four parts of a scenario's code.
pub(crate) trait Flow: Send + Sync {
    /// Once, before any user.
    fn setup<'a>(&'a self, vu: &'a Vu) -> LocalBoxFuture<'a, Result<Shared>>;
    /// Once for each user, before its first iteration.
    fn user_setup<'a>(&'a self, vu: &'a Vu, shared: &'a Shared) -> LocalBoxFuture<'a, Result<UserState>>;
    fn iterate<'a>(
        &'a self,
        vu: &'a Vu,
        state: &'a mut UserState,
        shared: &'a Shared,
    ) -> LocalBoxFuture<'a, Result>;
    /// Once, after all users.
    fn teardown(&self, shared: Shared) -> LocalBoxFuture<'_, Result>;
}

/// A plain function of the user.
pub(crate) struct Plain<F>(pub(crate) F);

impl<F: AsyncFn(&Vu) -> Result + Send + Sync> Flow for Plain<F> {
    fn setup<'a>(&'a self, _: &'a Vu) -> LocalBoxFuture<'a, Result<Shared>> {
        Box::pin(async { Ok(Arc::new(()) as Shared) })
    }

    fn user_setup<'a>(&'a self, _: &'a Vu, _: &'a Shared) -> LocalBoxFuture<'a, Result<UserState>> {
        Box::pin(async { Ok(Box::new(()) as UserState) })
    }

    fn iterate<'a>(&'a self, vu: &'a Vu, _: &'a mut UserState, _: &'a Shared) -> LocalBoxFuture<'a, Result> {
        Box::pin(self.0(vu))
    }

    fn teardown(&self, _: Shared) -> LocalBoxFuture<'_, Result> {
        Box::pin(async { Ok(()) })
    }
}

pub(crate) trait Setup<T>: Send + Sync {
    fn call<'a>(&'a self, vu: &'a Vu) -> LocalBoxFuture<'a, Result<T>>;
}

impl<T, F: AsyncFn(&Vu) -> Result<T> + Send + Sync> Setup<T> for F {
    fn call<'a>(&'a self, vu: &'a Vu) -> LocalBoxFuture<'a, Result<T>> {
        Box::pin(self(vu))
    }
}

pub(crate) trait UserSetup<T, S>: Send + Sync {
    fn call<'a>(&'a self, vu: &'a Vu, shared: &'a T) -> LocalBoxFuture<'a, Result<S>>;
}

impl<T, S, F: AsyncFn(&Vu, &T) -> Result<S> + Send + Sync> UserSetup<T, S> for F {
    fn call<'a>(&'a self, vu: &'a Vu, shared: &'a T) -> LocalBoxFuture<'a, Result<S>> {
        Box::pin(self(vu, shared))
    }
}

pub(crate) trait Teardown<T>: Send + Sync {
    fn call(&self, shared: T) -> LocalBoxFuture<'_, Result>;
}

impl<T: 'static, F: AsyncFn(T) -> Result + Send + Sync> Teardown<T> for F {
    fn call(&self, shared: T) -> LocalBoxFuture<'_, Result> {
        Box::pin(self(shared))
    }
}

/// A function of the user, of what the user keeps, and of what all share.
pub(crate) struct Full<T, S, F> {
    pub(crate) setup: Box<dyn Setup<T>>,
    pub(crate) user_setup: Box<dyn UserSetup<T, S>>,
    pub(crate) teardown: Option<Box<dyn Teardown<T>>>,
    pub(crate) iteration: F,
    /// A user's state is made and kept on one thread; the flow itself holds none.
    pub(crate) state: PhantomData<fn() -> S>,
}

impl<T, S, F> Flow for Full<T, S, F>
where
    T: Send + Sync + 'static,
    S: 'static,
    F: AsyncFn(&Vu, &mut S, &T) -> Result + Send + Sync,
{
    fn setup<'a>(&'a self, vu: &'a Vu) -> LocalBoxFuture<'a, Result<Shared>> {
        Box::pin(async move { Ok(Arc::new(self.setup.call(vu).await?) as Shared) })
    }

    fn user_setup<'a>(&'a self, vu: &'a Vu, shared: &'a Shared) -> LocalBoxFuture<'a, Result<UserState>> {
        Box::pin(async move { Ok(Box::new(self.user_setup.call(vu, shared_as(shared)).await?) as UserState) })
    }

    fn iterate<'a>(
        &'a self,
        vu: &'a Vu,
        state: &'a mut UserState,
        shared: &'a Shared,
    ) -> LocalBoxFuture<'a, Result> {
        let state = state.downcast_mut::<S>().expect("the state that this scenario's own user setup made");
        Box::pin((self.iteration)(vu, state, shared_as(shared)))
    }

    fn teardown(&self, shared: Shared) -> LocalBoxFuture<'_, Result> {
        Box::pin(async move {
            let Some(teardown) = &self.teardown else { return Ok(()) };
            let shared = shared.downcast::<T>().expect("the value that this scenario's own setup made");
            let shared = Arc::try_unwrap(shared).map_err(|_| "a user still holds what the setup made")?;
            teardown.call(shared).await
        })
    }
}

fn shared_as<T: 'static>(shared: &Shared) -> &T {
    shared.downcast_ref().expect("the value that this scenario's own setup made")
}
