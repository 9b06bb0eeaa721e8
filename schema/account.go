package schema

// AccountSpec is one set of credentials at a provider, with the part of its quotas that may be used.
type AccountSpec struct {
	// Provider is the provider's name.
	Provider string `json:"provider" jsonschema:"required,example=meraki"`
	// Credentials are where secrets are found. A secret in the document itself is an error.
	Credentials map[string]SecretRef `json:"credentials,omitempty"`
	// BaseURL overrides the provider's.
	BaseURL string `json:"baseURL,omitempty" jsonschema:"format=uri"`
	// Vars are constant variables of every request of this account.
	Vars map[string]string `json:"vars,omitempty"`
	// Targets are the hosts of an account that has several, such as devices with an API of their own.
	Targets []Target `json:"targets,omitempty"`
	// TLS says how the server's certificate is checked.
	TLS *TLS `json:"tls,omitempty"`
	// Budget is the part of every quota that may be used.
	Budget AccountBudget `json:"budget,omitzero"`
}

// SecretRef says where a secret is found: exactly one of its fields.
type SecretRef struct {
	// Env is the name of an environment variable.
	Env string `json:"env,omitempty" jsonschema:"example=MERAKI_KEY"`
	// File is a file whose content, without the last line break, is the secret.
	File string `json:"file,omitempty" jsonschema:"example=/run/secrets/meraki"`
}

// Target is one host of an account.
type Target struct {
	// Name is unique in the account; any text, such as a serial number or an address.
	Name string `json:"name" jsonschema:"required,minLength=1,maxLength=253,example=router-1"`
	// BaseURL is where its requests go.
	BaseURL string `json:"baseURL" jsonschema:"required,format=uri"`
	// Vars are constant variables of every request to this target.
	Vars map[string]string `json:"vars,omitempty"`
}

// TLS says how a server's certificate is checked.
type TLS struct {
	// CAFile holds the certificates to trust, in PEM. The default is the system's.
	CAFile string `json:"caFile,omitempty"`
	// InsecureSkipVerify switches the check off.
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
	// ServerName is the name that the certificate must hold, where it is not the host's.
	ServerName string `json:"serverName,omitempty"`
}

// AccountBudget is the part of every quota that an account may use.
type AccountBudget struct {
	// Share is that part, above 0 and at most 1.
	Share *Decimal `json:"share,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1,default=1"`
}
