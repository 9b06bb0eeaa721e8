// Package cli turns words into calls: it parses the command line, runs one
// command, and prints. Nothing else in tapyr parses flags or prints.
//
// A command line is a value: Run takes the streams, the environment, the clock
// and the words, and returns a status. Tests call it as main does.
//
// To add a command, write one file with a constructor like newVersionCommand
// and add the constructor to the list in commands.go. The frame then gives the
// command its help, manual page, completion, -o, exit status and two tests:
// that it shows two examples, and that they run.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/plaintext"
)

// The statuses with which tapyr exits. Scripts branch on them, so they change
// only with a major version.
const (
	// ExitOK means done, and nothing to complain of.
	ExitOK = 0
	// ExitBadNews means that the question was answered and the answer is bad
	// news: invalid documents, an infeasible plan, a broken audit.
	ExitBadNews = 1
	// ExitCannotAnswer means that there is no answer: wrong usage, an
	// unreadable file, no such name, a result that could not be written.
	ExitCannotAnswer = 2
	// ExitInterrupted means that SIGINT or SIGTERM ended the work: 128 + SIGINT.
	ExitInterrupted = 130
)

// Main runs tapyr on this process's own streams, environment, clock and words,
// and returns the status to exit with.
func Main() int {
	// With a handler installed, a write to a closed pipe returns EPIPE instead
	// of killing the process, and Run can end quietly with a status (see
	// output.go). Nobody reads the channel: the runtime drops what does not fit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks; from then on the default is back, so that a second
	// Ctrl-C ends even a command that does not listen.
	context.AfterFunc(ctx, stop)
	return Run(ctx, System(), os.Args[1:])
}

// Run executes one command line, words being os.Args without the program's
// name, and returns the exit status. Cancelling ctx interrupts the command.
func Run(ctx context.Context, env *Env, words []string) int {
	return runTree(ctx, env, newRootCommand(), words)
}

// runTree is Run over any tree of commands.
func runTree(ctx context.Context, env *Env, root *Command, words []string) int {
	if len(words) > 0 && words[0] == completeWord {
		return complete(env, root, words[1:])
	}
	return conclude(ctx, env, execute(ctx, env, root, words))
}

// execute arranges the words, then either shows help or hands them to the
// command that they name.
func execute(ctx context.Context, env *Env, root *Command, words []string) error {
	line, err := arrange(root, words)
	if err != nil {
		return err
	}
	if line.help || (line.command() == root && !line.version) {
		return env.withStdout(func(out *Output) error { return writeHelp(out, line.path) })
	}
	if line.version {
		return env.withStdout(func(out *Output) error { return writeVersion(out, readVersion(), "table") })
	}
	if err := line.check(); err != nil {
		return err
	}
	return newApp(env, root, line).RunContext(ctx, line.words())
}

// newApp builds the parser for one arranged line. Help, suggestions and exit
// codes are the frame's own, so everything that would print is switched off.
func newApp(env *Env, root *Command, line *line) *cli.App {
	usageError := func(_ *cli.Context, err error, _ bool) error {
		return flagValueError(line.command(), err)
	}
	top := root.build(env, root, usageError)
	return &cli.App{
		Name:                      root.Name,
		Usage:                     root.Usage,
		Commands:                  top.Subcommands,
		Flags:                     top.Flags,
		Action:                    top.Action,
		OnUsageError:              usageError,
		HideHelp:                  true,
		HideVersion:               true,
		Suggest:                   true,
		DisableSliceFlagSeparator: true,
		Reader:                    env.Stdin,
		Writer:                    env.Stderr,
		ErrWriter:                 env.Stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
	}
}

// conclude says on standard error what went wrong, if anything did, and returns
// the status that it means.
func conclude(ctx context.Context, env *Env, err error) int {
	var badNews *BadNewsError
	switch {
	case err == nil:
		return ExitOK
	case isBrokenPipe(err):
		// The reader has all it wants, as in "tapyr ... | head".
		return ExitOK
	case ctx.Err() != nil:
		fmt.Fprintln(env.Stderr, "tapyr: interrupted")
		return ExitInterrupted
	case errors.As(err, &badNews):
		if badNews.Summary != "" {
			fmt.Fprintf(env.Stderr, "tapyr: %s\n", oneLine(badNews.Summary))
		}
		return ExitBadNews
	default:
		fmt.Fprintf(env.Stderr, "tapyr: %s\n", oneLine(err.Error()))
		return ExitCannotAnswer
	}
}

// oneLine is an error's text as one line: several joined errors stand behind each other.
func oneLine(text string) string {
	return plaintext.Printable(strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "; "))
}
