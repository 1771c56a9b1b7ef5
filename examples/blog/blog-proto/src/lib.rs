//! Messages, clients and servers of the four gRPC services, made from `proto/`.

#![expect(
    clippy::pedantic,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "the modules are generated"
)]

macro_rules! package {
    ($service:ident) => {
        pub mod $service {
            pub mod v1 {
                include!(concat!(env!("OUT_DIR"), "/", stringify!($service), ".v1.rs"));
            }
        }
    };
}

package!(auth);
package!(blog);
package!(comment);
package!(user);
