package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// Command is the definition of one command. Help, the manual page, completion
// and the parser are all made from it, so none can say what another does not.
type Command struct {
	// Name is the word that calls the command.
	Name string
	// Usage is one line, without a full stop, that completes "tapyr NAME: ...".
	Usage string
	// ArgsUsage shows the arguments, as in "[PATH...]". Words in it that end in
	// PATH, FILE or DIR make completion offer files.
	ArgsUsage string
	// ArgsMin and ArgsMax bound the number of arguments; a negative ArgsMax
	// means no bound. They do not apply to a command with Subcommands.
	ArgsMin, ArgsMax int
	// ArgsChoices are the values of the first argument, for completion.
	ArgsChoices []string
	// Description is prose: paragraphs separated by an empty line, unwrapped.
	// A line that begins with four spaces is kept as it is.
	Description string
	// Examples are at least two, each of which runs as it stands from the root
	// of a clone. Tests run them.
	Examples []Example
	// Flags are this command's own; constructors of the shared ones, such as
	// formatFlag and outputFlag, are in flags.go.
	Flags []cli.Flag
	// Subcommands makes the command a group, which only names them.
	Subcommands []*Command
	// OutputFolder says that the value of -o is a folder, which the command
	// itself writes into.
	OutputFolder bool
	// Hidden keeps the command out of lists; it still runs and has help.
	Hidden bool
	// Run does the work. Its errors become the exit status: nil is 0, a
	// BadNewsError is 1, anything else is 2.
	Run func(*Call) error

	// parent is the group that the command belongs to, nil for the root.
	parent *Command
}

// Example is one command line that help shows and a test runs.
type Example struct {
	// Comment says in a few words what the line is for.
	Comment string
	// Line is the command line, for sh, from the root of a clone.
	Line string
	// Status is the exit status that the line must have.
	Status int
}

// topCommands lists the constructors of all commands, in the order of help:
// first what people do with documents, from making them on, then with ledgers and the daemon, then
// what concerns tapyr itself. A new command is one more line here.
var topCommands = []func() *Command{
	newInitCommand,
	newValidateCommand,
	newPlanCommand,
	newInspectCommand,
	newReplayCommand,
	newSimulateCommand,
	newRunCommand,
	newCheckCommand,
	newStatusCommand,
	newJobCommand,
	newLedgerCommand,
	newSpendCommand,
	newSmartflowCommand,
	newSchemaCommand,
	newCompletionCommand,
	newManCommand,
	newVersionCommand,
}

// newRootCommand builds a fresh tree. Flag definitions hold parsed values, so
// each command line needs its own.
func newRootCommand() *Command {
	root := &Command{
		Name:      "tapyr",
		Usage:     "plan, check and run API calls inside the limits that vendors set",
		ArgsUsage: "COMMAND [ARGUMENT...]",
		Description: "Declare once, in YAML, which limits an API has and which jobs poll it. tapyr then says what is " +
			"wrong with the declaration, what fits before anything runs, what happened afterwards, and keeps the calls " +
			"inside every limit while they run.",
		Examples: []Example{
			{Comment: "which tapyr this is", Line: "tapyr version"},
			{Comment: "what a command does and which flags it reads", Line: "tapyr help completion"},
		},
		Flags: globalFlags(),
	}
	for _, construct := range topCommands {
		root.Subcommands = append(root.Subcommands, construct())
	}
	root.Subcommands = append(root.Subcommands, newHelpCommand())
	root.adopt()
	return root
}

// adopt sets parent in the whole tree below c.
func (c *Command) adopt() {
	for _, sub := range c.Subcommands {
		sub.parent = c
		sub.adopt()
	}
}

// fullName is the command as one types it: "tapyr inspect windows".
func (c *Command) fullName() string {
	if c.parent == nil {
		return c.Name
	}
	return c.parent.fullName() + " " + c.Name
}

// find returns the subcommand of that name, or nil.
func (c *Command) find(name string) *Command {
	for _, sub := range c.Subcommands {
		if sub.Name == name {
			return sub
		}
	}
	return nil
}

// visible returns the subcommands that lists show.
func (c *Command) visible() []*Command {
	var shown []*Command
	for _, sub := range c.Subcommands {
		if !sub.Hidden {
			shown = append(shown, sub)
		}
	}
	return shown
}

// visibleNames returns the names of the subcommands that lists show.
func (c *Command) visibleNames() []string {
	var list []string
	for _, sub := range c.visible() {
		list = append(list, sub.Name)
	}
	return list
}

// walk calls visit for c and every command below it, parents first.
func (c *Command) walk(visit func(*Command)) {
	visit(c)
	for _, sub := range c.Subcommands {
		sub.walk(visit)
	}
}

// build makes the parser's form of c and all below it.
func (c *Command) build(env *Env, root *Command, usageError cli.OnUsageErrorFunc) *cli.Command {
	built := &cli.Command{
		Name:         c.Name,
		Usage:        c.Usage,
		ArgsUsage:    c.ArgsUsage,
		Flags:        c.Flags,
		HideHelp:     true,
		OnUsageError: usageError,
		Action:       func(cc *cli.Context) error { return c.invoke(env, root, cc) },
	}
	for _, sub := range c.Subcommands {
		built.Subcommands = append(built.Subcommands, sub.build(env, root, usageError))
	}
	return built
}

// invoke runs c and settles where its result went: a file named by -o appears
// only if there is an answer, good news or bad.
func (c *Command) invoke(env *Env, root *Command, cc *cli.Context) error {
	target := cc.String(outputFlagName)
	if c.OutputFolder {
		target = ""
	}
	out, err := env.openOutput(target, colorWanted(env, cc.Bool("no-color")))
	if err != nil {
		return err
	}
	call := &Call{Context: cc, Env: env, Out: out, command: c, root: root}
	call.Log, err = newLogger(env.Stderr, cc.String("log-level"), cc.String("log-format"), cc.Bool("quiet"))
	if err != nil {
		return err
	}
	err = c.Run(call)
	if err == nil || isBadNews(err) {
		// A result that cannot be written is no answer, whatever it says.
		if closeErr := out.Close(); closeErr != nil {
			return closeErr
		}
		return err
	}
	// What the command printed before it failed still goes to the terminal or
	// pipe, but never to a file, and its own error is the one to report.
	_ = out.Discard()
	return err
}

// Examples returns the examples of every command, hidden ones too, by the full
// name of the command.
func Examples() map[string][]Example {
	all := map[string][]Example{}
	newRootCommand().walk(func(c *Command) { all[c.fullName()] = c.Examples })
	return all
}

// join writes a list for a sentence: "a, b or c".
func join(list []string, conjunction string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return fmt.Sprintf("%s %s %s", strings.Join(list[:last], ", "), conjunction, list[last])
}
