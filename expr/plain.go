package expr

import (
	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// maxPlainNodes bounds a plain expression. Each node walks through its data once at the most, so that a plain expression over the
// largest body takes a fraction of the time that maxCost allows.
const maxPlainNodes = 32

// plainCalls are the functions of plain expressions: what they cost does not grow beyond the data at hand, and they copy none of it.
var plainCalls = map[string]bool{
	operators.Conditional: true, operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true,
	operators.Equals: true, operators.NotEquals: true, operators.Less: true, operators.LessEquals: true, operators.Greater: true,
	operators.GreaterEquals: true, operators.Subtract: true, operators.Multiply: true, operators.Divide: true, operators.Modulo: true,
	operators.Negate: true, operators.Index: true, operators.OptIndex: true, operators.OptSelect: true,
	"size": true, "double": true, "int": true, "uint": true, "string": true, "bool": true, "orValue": true, "hasValue": true,
}

// plain tells whether an expression needs no watch over its cost: it has no loop, few steps, and calls only plain functions. Most
// expressions of documents are of this kind, such as item.id, and counting costs them more than their evaluation.
func plain(tree *cel.Ast) bool {
	nodes, ok := 0, true
	celast.PreOrderVisit(tree.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		nodes++
		switch e.Kind() {
		case celast.IdentKind, celast.LiteralKind, celast.SelectKind:
		case celast.CallKind:
			ok = ok && plainCalls[e.AsCall().FunctionName()]
		default:
			ok = false
		}
	}))
	return ok && nodes <= maxPlainNodes
}
